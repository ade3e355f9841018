"""What jobs that learn by reinforcement tell in their output."""
