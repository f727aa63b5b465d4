"""Text as the paper's BLEU saw it: quotes normalised, tokenised as by Moses, compounds split (§6.1).

The paper's authors normalised punctuation, ran the Moses tokenizer, and split compounds on both sides before
counting n-grams, "for historical reasons", as systems before them had:

    Er sagt: „Der Rich-Text ist da.“  →  Er sagt : " Der Rich ##AT##-##AT## Text ist da . "

Hyphens then match on their own, and the score is higher than sacreBLEU's (by 0.1 to 0.3 on Multi30k, by more on text
with many hyphens). It can be compared with papers of that time only.

DEVIATION: Moses keeps the full stop on the abbreviations of a list for each language. We have no list: a full
stop stays on words with a full stop inside ("z.B."), on single capitals ("J."), on words before a lower-case
word, and, in German, on a number of one or two digits (an ordinal). Hypotheses and references are tokenised alike.
"""

import re
import unicodedata
from itertools import zip_longest

_QUOTES = str.maketrans(dict.fromkeys("„“”‟«»″〝〞「」《》", '"') | dict.fromkeys("‚‘’‛‹›′", "'") | {"…": "..."})

_CONTROL = re.compile(r"[\x00-\x1f]")
_SIGN = re.compile(r"[^\w\s.'`,\-]|_")
_DOTS = re.compile(r"(\.{2,})")
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")  # all but the one in "1,9"
_COMPOUND = re.compile(r"(\S)-(\S)")

# Apostrophes are split as in English "don 't" and French "l' homme"; in other languages they are tokens.
_ENGLISH = (re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])|(?<=\d)'(?=s)"), " \0")
_FRENCH = (re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])"), "\0 ")
_APOSTROPHES = {"en": _ENGLISH, **dict.fromkeys(("fr", "it", "ga", "ca"), _FRENCH)}  # \0 marks one that is split

_FULL_STOP = re.compile(r"(\S+)\.")


def paper_tokens(line: str, language: str = "") -> str:
    """Returns `line` normalised, tokenised and with compounds split, tokens separated by single spaces.

    Args:
        line: Detokenised text.
        language: ISO 639 code of the text; it determines how apostrophes are split.
    """
    return split_compounds(" ".join(_tokens(normalize_quotes(line), language)))


def normalize_quotes(line: str) -> str:
    """Returns `line` with every kind of quotation mark and apostrophe as `"` or `'`, and "…" as "..."."""
    return line.translate(_QUOTES)


def split_compounds(line: str) -> str:
    """Returns tokenised `line` with "rich-text" as "rich ##AT##-##AT## text"."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def _tokens(line: str, language: str) -> list[str]:
    line = _SIGN.sub(_set_apart, _CONTROL.sub(" ", line))
    line = _DOTS.sub(r" \1 ", line)
    line = _COMMA.sub(" , ", line)
    line = _apostrophes(line, language)
    words = line.split()
    tokens: list[str] = []
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        stem = _FULL_STOP.fullmatch(word)
        if stem and not stem[1].endswith(".") and not _keeps_full_stop(stem[1], following, language):
            tokens += [stem[1], "."]
        else:
            tokens.append(word)
    return tokens


def _set_apart(match: re.Match[str]) -> str:
    accent = unicodedata.category(match[0]).startswith("M")  # part of its letter, although \w does not match it
    return match[0] if accent else f" {match[0]} "


def _apostrophes(line: str, language: str) -> str:
    if language not in _APOSTROPHES:
        return line.replace("'", " ' ")
    pattern, split = _APOSTROPHES[language]
    return pattern.sub(split, line).replace("'", " ' ").replace("\0", "'")


def _keeps_full_stop(stem: str, following: str, language: str) -> bool:
    return (
        ("." in stem and any(character.isalpha() for character in stem))
        or (len(stem) == 1 and stem.isupper())
        or following[:1].islower()
        or (language == "de" and stem.isdigit() and len(stem) <= 2)
    )
