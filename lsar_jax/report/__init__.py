"""Two pages to look at: the report on text of the user's, and the explorer, on one engine and one page kit."""
