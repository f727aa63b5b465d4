"""Sweeps: one trained model decoded under many settings: averaging, beam size, length penalty (§6.1)."""
