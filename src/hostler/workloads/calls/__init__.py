"""Calls of functions as a sweep: each item is one call. The client side is `hostler.client.executor`."""
