"""What people look at: the report on text of their own, and the explorer, on one engine and one page kit."""
