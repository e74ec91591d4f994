"""Benchmarks of today by name, as MTEB defines them, with what it leaves out: intervals, one pool, scripts."""
