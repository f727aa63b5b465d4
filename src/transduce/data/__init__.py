"""Parallel text: reading, checking, preparing, storing and batching it."""
