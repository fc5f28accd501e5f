"""Benchmarks: each compares with named peers (other libraries or plain code) in one process and returns table rows."""
