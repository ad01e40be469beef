"""Running commands, programs and tests."""
