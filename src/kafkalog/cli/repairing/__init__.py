"""Commands that plan a repair, do it, take it back, and clear up."""
