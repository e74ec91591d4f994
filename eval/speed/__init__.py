"""Benchmarks against other libraries, timed in the same run."""
