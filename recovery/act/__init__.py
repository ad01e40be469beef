"""Changing a directory under lock, journal and quarantine, and taking it back."""
