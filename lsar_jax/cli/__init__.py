"""The commands of ``lsar-jax``, one a file."""
