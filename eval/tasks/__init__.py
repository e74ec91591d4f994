"""The tasks, one per file, with their texts and scores; ``benchmarks`` has those that are benchmarks by name."""
