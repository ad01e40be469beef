"""How what was made, read or changed is compared, counted and told the same."""
