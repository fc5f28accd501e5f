"""The norms that the paper compares with."""
