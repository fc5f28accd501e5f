"""Problems on grids, one equation per module."""
