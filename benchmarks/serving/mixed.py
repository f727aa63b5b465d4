"""Requests of all kinds, with the answers that `Translator` gives without a service."""

import json
import urllib.parse
from typing import TYPE_CHECKING, Any

from serving.client import Call

if TYPE_CHECKING:
    from serving.scenarios import Subject

_PAIR = {"source": "en", "target": "de"}


def calls(subject: "Subject") -> list[Call]:
    """Returns requests of several faces and options, some of them lists."""
    from dataclasses import replace

    from transduce import Translator
    from transduce.serve.config import read_config

    translator = Translator.load(subject.model, engine="ctranslate2", quantization=subject.quantization, threads=1)
    plain = read_config(subject.config, [str(subject.model)]).text
    sentences = subject.sentences

    def translated(lines: list[str], **options: Any) -> list[str]:
        text_options = replace(plain, markup=options.pop("markup", plain.markup))
        return translator.translate(lines, text_options=text_options, **options)

    def as_json(body: dict[str, Any], path: str, expected: dict[tuple[str | int, ...], Any]) -> Call:
        return Call(json.dumps(body | _PAIR).encode(), path, expected=expected)

    found, usual = [], translated(sentences)
    greedy, tagged = translated(sentences, beam_size=1), [f"<p>{each}</p>" for each in sentences]
    kept = translated(tagged, markup="html")
    for index, (sentence, translation) in enumerate(zip(sentences, usual, strict=True)):
        kind = index % 5
        if kind == 0:
            found.append(as_json({"q": sentence}, "/translate", {("translatedText",): translation}))
        elif kind == 1:
            form = urllib.parse.urlencode({"q": sentence} | _PAIR).encode()
            kind_of_form = "application/x-www-form-urlencoded"
            found.append(Call(form, "/translate", kind_of_form, {("translatedText",): translation}))
        elif kind == 2:
            some = slice(index, index + 5)
            found.append(as_json({"q": sentences[some]}, "/translate", {("translatedText",): usual[some]}))
        elif kind == 3:
            body = {"q": tagged[index], "format": "html"}
            found.append(as_json(body, "/translate", {("translatedText",): kept[index]}))
        else:
            body = {"text": sentence, "beam_size": 1}
            found.append(as_json(body, "/api/translate", {("translations", 0, "text"): greedy[index]}))
    return found
