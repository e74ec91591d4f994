"""Text to token ids, and token ids to batches of a few shapes."""
