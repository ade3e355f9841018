"""An AlphaZero-style learner for any game: self-play, quality gate, training and evaluation as processes on nodes."""
