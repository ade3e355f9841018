"""Advice by a language model: asked for beside the game, never waited for."""
