"""Benchmarks by name: the papers', and others with MTEB's scores, with intervals, one pool, and scripts besides."""
