"""A lexical shortlist: the few words that can translate those of a source, so that the others need not be computed.

`table` is what engines use, `lexicon` how word translations are learned, `learning` all of `transduce shortlist`.
"""
