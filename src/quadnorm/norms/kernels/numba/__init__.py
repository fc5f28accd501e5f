"""The weighted norm on CPUs, compiled by numba."""
