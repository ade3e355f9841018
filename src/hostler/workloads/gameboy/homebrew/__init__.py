"""A cartridge of our own: its source, and the assembler that makes it."""
