"""Options that several commands share. Each is declared once and has the same meaning in all commands."""
