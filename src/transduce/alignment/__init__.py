"""Which words translate which, by what a corpus itself shows: links of words, and lines that do not belong together.

Needs no torch, and no other dictionary.
"""
