"""`make gpu`: checks on a machine with an NVIDIA GPU, which no other tier has. `python -m tests.gpu` plays them."""
