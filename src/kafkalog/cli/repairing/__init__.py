"""Commands that plan a repair, carry it out, undo it, and delete what it kept."""
