"""The tasks from the papers, one per file, with their texts and scores."""
