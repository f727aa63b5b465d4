"""Searches for the best output, greedy and by beam, over any step function: they know no model."""
