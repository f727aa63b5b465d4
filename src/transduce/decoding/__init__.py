"""Greedy search, beam search and sampling over any step function, independent of the model."""
