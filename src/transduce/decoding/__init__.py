"""Greedy search, beam search and sampling over any step function; they know no model."""
