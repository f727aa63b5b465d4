"""The ids of the special tokens: the first of every vocabulary, the same in every model."""

PAD, BOS, EOS, UNK = range(4)
