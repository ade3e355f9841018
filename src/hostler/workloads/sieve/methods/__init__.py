"""Ways to search: each finds candidates, exactly or by going through all; see README.md."""
