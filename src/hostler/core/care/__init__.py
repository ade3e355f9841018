"""How the fleet is, as far as it tells: concurrency of devices, pressure on nodes and on the queue."""
