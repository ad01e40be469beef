"""Options that several commands share: each is declared once, and means the same wherever it is given."""
