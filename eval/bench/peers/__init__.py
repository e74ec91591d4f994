"""Benchmarks beside other libraries, timed in the same run: a file each, with a function of its name."""
