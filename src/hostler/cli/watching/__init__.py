"""Live views on a terminal: what is fetched, how it is drawn, and the loop around both."""
