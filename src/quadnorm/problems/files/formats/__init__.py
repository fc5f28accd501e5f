"""One module for each kind of file, and what opening HDF5 takes."""
