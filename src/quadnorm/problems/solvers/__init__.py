"""Numerical methods that the problems are solved with."""
