"""Fields of our own requests: what each becomes, defaults, and requests that are as large as they may be."""

from dataclasses import replace
from typing import Any

import pytest

from transduce.serve.config import BatchingConfig, LimitsConfig, ServeConfig
from transduce.serve.requests import Priority
from transduce.serve.web.own_fields import AlternativesFields, AttentionFields, read_one_text, read_own_fields
from transduce.serve.web.refusals import Refusal
from transduce.translation.pipeline import TextOptions

_CONFIG = ServeConfig(
    text=TextOptions(guard=True),
    limits=LimitsConfig(text_characters=20, list_length=2, term_characters=5, alternatives=2, beam_size=4),
    batching=BatchingConfig(deadline_seconds=10),
)


def _read(**fields: Any) -> Any:
    return read_own_fields({"text": "A dog", "target": "de"} | fields, _CONFIG)


def test_what_a_request_is_without_further_fields() -> None:
    found = _read()
    plain = found.plain
    assert (found.texts, plain.source, plain.target, plain.stream) == (["A dog"], "auto", "de", False)
    assert found.further == {
        "n_best": 1,
        "options": {},
        "prefixes": None,
        "forbidden": None,
        "required": None,
        "glossary": None,
        "priority": Priority.INTERACTIVE,
        "timeout_seconds": None,
    }
    assert found.further_characters == 0
    assert found.text_options == replace(_CONFIG.text, confidence=True, alignment=True)
    again = AlternativesFields(text="A dog", target="de")
    assert (again.source, again.prefix, again.n, again.domain) == ("auto", "", 5, None)


def test_what_fields_become() -> None:
    found = _read(
        text=["A dog", "Two cats"],
        prefix=["Ein", ""],
        required=[["Hund", ["Kater", "Katze"]], []],
        forbidden=["Köter"],
        glossary={"dog": "Hund", "cat": ["Katze", "Mieze"]},
        priority="bulk",
        timeout_seconds=4.0,
        split="never",
        markup="html",
        guard=False,
        domain="law",
        confidence=False,
        alignment=False,
        beam_size=4,
        n_best=3,
    )
    assert found.texts == ["A dog", "Two cats"]
    assert found.further == {
        "n_best": 3,
        "options": {"beam_size": 4},
        "prefixes": ["Ein", ""],
        "forbidden": [["Köter"], ["Köter"]],
        "required": [["Hund", ["Kater", "Katze"]], []],
        "glossary": {"dog": "Hund", "cat": ["Katze", "Mieze"]},
        "priority": Priority.BULK,
        "timeout_seconds": 4.0,
    }
    # Ein, Hund Kater Katze, Köter, dog Hund cat Katze Mieze
    assert found.further_characters == 3 + (4 + 5 + 5) + 5 + (3 + 4 + 3 + 5 + 5)
    assert found.text_options == TextOptions(split="never", markup="html", guard=False, domain="law")
    assert _read(timeout_seconds=11).further["timeout_seconds"] == 10, "no longer than the configured deadline"
    assert _read(prefix="").further["prefixes"] is None
    assert _read(required=[], glossary={}).further["required"] is None
    assert _read(glossary={}).further["glossary"] is None


@pytest.mark.parametrize(
    ("most", "too_much"),
    [
        ({"text": "a" * 20}, {"text": "a" * 21}),
        ({"text": ["a" * 10] * 2}, {"text": ["a" * 10, "a" * 11]}),
        ({"text": "a" * 15, "prefix": "b" * 5}, {"text": "a" * 15, "prefix": "b" * 6}),
        ({"text": ["a"] * 2}, {"text": ["a"] * 3}),
        ({"n_best": 3}, {"n_best": 4}),
        ({"n_best": 1}, {"n_best": 0}),
        ({"beam_size": 4}, {"beam_size": 5}),
        ({"timeout_seconds": 0.01}, {"timeout_seconds": 0}),
        ({"required": ["a" * 5]}, {"required": ["a" * 6]}),
        ({"required": [["a", "b" * 5]]}, {"required": [["a", "b" * 6]]}),
        ({"forbidden": ["a" * 5]}, {"forbidden": ["a" * 6]}),
        ({"glossary": {"a" * 5: "b"}}, {"glossary": {"a" * 6: "b"}}),
        ({"glossary": {"a": ["b", "c" * 5]}}, {"glossary": {"a": ["b", "c" * 6]}}),
        ({"required": [["a", "b"]] * 500}, {"required": [["a", "b"]] * 500 + ["c"]}),
        ({"forbidden": ["a"] * 1000}, {"forbidden": ["a"] * 1001}),
        ({"text": ["a"] * 2, "forbidden": ["a"] * 500}, {"text": ["a"] * 2, "forbidden": ["a"] * 501}),
        ({"glossary": {"a": ["b"] * 1000}}, {"glossary": {"a": ["b"] * 1001}}),
        ({"text": ["a"] * 2, "required": [["a"], []]}, {"text": ["a"] * 2, "required": [["a"], [], []]}),
        ({"text": ["a"] * 2, "prefix": ["a", ""]}, {"text": ["a"] * 2, "prefix": ["a"]}),
        ({"required": [["a"]]}, {"forbidden": [["a"]]}),
        ({"beam_size": 2}, {"batch_size": 2}),
    ],
)
def test_a_request_may_be_as_large_as_a_limit_and_no_larger(most: dict[str, Any], too_much: dict[str, Any]) -> None:
    _read(**most)
    with pytest.raises(Refusal):
        _read(**too_much)


@pytest.mark.parametrize(
    ("kind", "counted"), [(AlternativesFields, ("text", "prefix")), (AttentionFields, ("text", "translation"))]
)
def test_characters_of_both_sides_count(kind: type[Any], counted: tuple[str, str]) -> None:
    fields = {"text": "a" * 12, "target": "de", counted[1]: "b" * 8, "source": None}
    found = read_one_text(fields, kind, _CONFIG, counted)
    assert (found.text, found.source, getattr(found, counted[1])) == ("a" * 12, "auto", "b" * 8)
    with pytest.raises(Refusal, match=f"{counted[0]} and {counted[1]}: 21 characters"):
        read_one_text(fields | {"text": "a" * 13}, kind, _CONFIG, counted)
