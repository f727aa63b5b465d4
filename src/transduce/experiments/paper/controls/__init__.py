"""Controls of the paper's headline: transducers of other kinds, trained, searched and scored as the Transformer is.

They are what the paper calls recurrent and convolutional models (§1, §2, Table 2), in small. `ModelConfig` gives their
sizes; what it says of positions, windows and feed-forward networks holds where a control has such a part.
"""
