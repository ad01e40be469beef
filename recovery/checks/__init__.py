"""Check log directories without changing them; each check gives findings."""
