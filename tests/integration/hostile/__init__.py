"""A hostile node on a real connection: a process of its own that says what it likes (`make test-services`)."""
