"""The controller's own disk: what lies there, what of it may go, and how it goes. Start reading at `cleaning`."""
