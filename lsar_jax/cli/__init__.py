"""The commands of ``lsar-jax``, one per file."""
