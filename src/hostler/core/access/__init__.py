"""Who may come in, who asked for what, and what was answered."""
