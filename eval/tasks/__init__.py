"""The tasks of the papers, one a file: its texts and its scores."""
