"""Benchmarks beside a peer, in one run."""
