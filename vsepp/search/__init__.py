"""A snapshot in use, without torch."""
