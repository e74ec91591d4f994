"""Benchmarks: the time beside other libraries (``speed``), and the cost of compiled programs (``aot``)."""
