"""Modifiers: changes of training pairs as batches are made, so that a translator survives real text.

Each family has a module; `modified` applies them. `docs/guides/robustness.md` says what each is good for.
"""
