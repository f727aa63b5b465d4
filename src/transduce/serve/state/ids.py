"""Ids of what is stored."""

import secrets


def new_id() -> str:
    """Returns an id that cannot be guessed, in the form of a UUID, which DeepL's clients expect."""
    digits = secrets.token_hex(16)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
