"""Find the sound parts of a damaged log, what follows the damage, and what can be repaired."""
