"""Reports on results: a page of tables and figures, paired tests, transfer, and the papers' numbers."""
