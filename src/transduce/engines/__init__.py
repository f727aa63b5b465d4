"""Engines: they run a model, from token ids to token ids."""
