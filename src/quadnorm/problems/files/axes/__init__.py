"""Which axis of an array is which, and the coordinates along it: by names in the file, shapes, or the caller."""
