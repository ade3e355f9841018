"""Beacons: a game of territory and connection for two to four players on any board, the reference game of the loop."""
