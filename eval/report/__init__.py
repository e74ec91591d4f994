"""Reports on results: a page of tables and figures, paired tests, and transfer."""
