"""Benchmarks: each compares with named peers in the same process run, and returns rows for a table."""
