"""Numerical methods for the problems' equations."""
