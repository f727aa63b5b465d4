"""Runs LibreTranslate, or the API of Argos Translate, in its own environment, with another splitter of sentences.

    python libretranslate_peer.py serve PORT THREADS              packages are read from ARGOS_PACKAGES_DIR
    python libretranslate_peer.py lines SOURCE OUTPUT             translates a file, and prints its processor seconds

Both systems split text with MiniSBD, which downloads a neural model for each language. Without a network there is none.
`sentencex`, which Transduce uses, takes its place: it costs microseconds, so that the peer is faster than it would be.
"""

import sys
import time
from pathlib import Path

import sentencex
from argostranslate import sbd


class Splitter:
    """What MiniSBD's detector does, with rules instead of a model."""

    def __init__(self, language: str, **_: object) -> None:
        """Takes the language."""
        self._language = language

    def sentences(self, text: str) -> list[str]:
        """Returns the sentences of a text."""
        return [each.strip() for each in sentencex.segment(self._language, text)] or [text]


def serve(port: str, threads: str) -> None:
    """Runs LibreTranslate, without what a client of /translate does not need."""
    from libretranslate import init, main

    init.boot = lambda *_, **__: None  # with fewer than two packages, it downloads an index until that succeeds
    options = ["--disable-web-ui", "--disable-files-translation", "--load-only", "en,de"]
    sys.argv = ["libretranslate", "--port", port, "--threads", threads, *options]
    main()


def lines(source: str, output: str) -> None:
    """Translates a file line by line, twice; the first run loads the model."""
    from argostranslate import translate

    texts = Path(source).read_text(encoding="utf-8").splitlines()
    translate.translate(texts[0], "en", "de")
    begin = time.process_time()
    translations = [translate.translate(text, "en", "de") for text in texts]
    one_by_one = time.process_time() - begin
    begin = time.process_time()
    together = translate.translate("\n".join(texts), "en", "de")
    print(one_by_one, time.process_time() - begin)
    Path(output).write_text("".join(f"{each}\n" for each in translations), encoding="utf-8")
    if together.splitlines() != translations:
        sys.exit("Argos Translate gives other translations for the lines together than for each alone")


if __name__ == "__main__":
    sbd.SBDetect = Splitter
    {"serve": serve, "lines": lines}[sys.argv[1]](*sys.argv[2:])
