"""Which devices are trusted, and which jobs keep away from which."""
