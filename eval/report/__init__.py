"""What is made of results: a page of tables, paired tests, the papers' numbers."""
