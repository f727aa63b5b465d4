"""Which words translate which, by what a corpus itself shows, and which of its lines do not belong together.

Needs no torch, and no other dictionary.
"""
