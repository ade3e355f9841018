"""Defects in the product: each is planted in a copy of Hostler, and the tests have to notice it (`make mutants`)."""
