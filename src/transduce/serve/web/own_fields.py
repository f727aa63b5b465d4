"""The fields of our own translation requests: which there are, and what each may hold."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from transduce.config.loading import convert
from transduce.config.ranges import ranges_of, require_within, shown
from transduce.config.schema import DecodeConfig
from transduce.errors import ConfigError, suggestion
from transduce.serve.config import ServeConfig
from transduce.serve.requests import Priority
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.refusals import bad_request
from transduce.serve.web.request_body import Fields, texts_within
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.text_options import Markup, Split

SEARCH_FIELDS = frozenset(field.name for field in dataclasses.fields(DecodeConfig)) - {"batch_size"}
_MAX_TERMS = 1000  # of a request, with all choices: required, forbidden, or in its glossary
_MAX_EXTRA_TOKENS = 2000  # each may cost a step of a search, which cannot be ended before it has its output
_TOO_LONG = "{:,} characters, and at most {:,} are allowed."
_FURTHER_TEXT = ("prefix", "forbidden", "required", "glossary")  # fields with further text
_TEXT_OPTIONS = ("split", "markup", "guard", "capitals", "signs", "confidence", "alignment", "domain")


@dataclass(frozen=True, kw_only=True)
class PlainFields:
    """Fields of a plain type, with their defaults; None is "as the service is configured"."""

    target: str
    source: str = AUTO
    check_source: bool = False  # whether the language is detected where it is named too
    n_best: int = 1
    split: Split | None = None
    markup: Markup | None = None
    guard: bool | None = None
    capitals: bool | None = None
    signs: bool | None = None
    domain: str | None = None  # for a model that was trained on domains
    confidence: bool = True  # whether words have probabilities, and translations a confidence
    alignment: bool = True  # whether words of both sides are linked
    priority: Literal["interactive", "bulk"] = "interactive"
    timeout_seconds: float | None = None  # no longer than the configured deadline
    stream: bool = False


KNOWN_FIELDS = (
    *("text", *get_type_hints(PlainFields), *_FURTHER_TEXT),
    *sorted(SEARCH_FIELDS),
)


@dataclass(frozen=True, kw_only=True)
class OwnFields:
    """A checked request."""

    texts: list[str]
    plain: PlainFields
    text_options: TextOptions  # those of the configuration, changed by the request
    further_characters: int  # of prefixes and terms, as they were sent
    further: dict[str, Any]  # further fields of a `TranslationRequest`


@dataclass(frozen=True, kw_only=True)
class AlternativesFields:
    """A checked request for the words that may follow in a translation."""

    text: str
    target: str
    source: str = AUTO
    prefix: str = ""  # the translation up to the word; it ends in a space to request a new word
    n: int = 5  # words
    domain: str | None = None  # as of a translation


@dataclass(frozen=True, kw_only=True)
class AttentionFields:
    """A checked request for the attention of a pair."""

    text: str
    target: str
    source: str = AUTO
    translation: str | None = None  # None: what the model writes
    domain: str | None = None  # as of a translation


OneText = TypeVar("OneText", AlternativesFields, AttentionFields)


def read_one_text(fields: Fields, kind: type[OneText], config: ServeConfig, counted: Collection[str]) -> OneText:
    """Returns the checked fields of a request about a single text; for the errors see `read_own_fields`.

    Args:
        fields: what the request holds.
        kind: a dataclass of the fields.
        config: has the greatest number of characters.
        counted: the fields whose characters count; `text` and `target` must be there.
    """
    hints = get_type_hints(kind)
    given = known_fields(fields, hints)
    for name in ("text", "target"):
        if name not in given:
            raise bad_request(f"The field '{name}' is missing.")
    values = _converted(given, hints)
    _require_length(sum(len(values.get(name, "")) for name in counted), config, " and ".join(counted))
    return kind(**values)


def read_own_fields(fields: Fields, config: ServeConfig) -> OwnFields:
    """Returns the checked fields of a request.

    Raises:
        Refusal: a field is unknown, missing, of the wrong type, or over a limit.
    """
    given = known_fields(fields, KNOWN_FIELDS)
    plain = _plain(given)
    texts, is_list = read_texts(given, config)
    search = search_options(given, config)
    _require_at_most(plain.n_best, "n_best", 1 + config.limits.alternatives)
    prefixes = _prefixes(given, len(texts), is_list)
    _require_length(sum(map(len, [*texts, *(prefixes or ())])), config, "text and prefix")
    timeout = plain.timeout_seconds
    further: dict[str, Any] = {
        "n_best": plain.n_best,
        "options": search,
        "prefixes": prefixes,
        "forbidden": _phrases(given, "forbidden", len(texts), is_list),
        "required": _phrases(given, "required", len(texts), is_list),
        "glossary": glossary_field(given, config),
        "priority": Priority[plain.priority.upper()],
        "timeout_seconds": None if timeout is None else min(timeout, config.batching.deadline_seconds),
    }
    for name in ("forbidden", "required"):
        _require_short(given.get(name), name, config.limits.term_characters)
    changes = {name: value for name in _TEXT_OPTIONS if (value := getattr(plain, name)) is not None}
    return OwnFields(
        texts=texts,
        plain=plain,
        text_options=dataclasses.replace(config.text, **changes),
        further_characters=sum(len(each) for name in _FURTHER_TEXT for each in _texts_in(given.get(name))),
        further=further,
    )


def _plain(given: Fields) -> PlainFields:
    if "target" not in given:
        raise bad_request("The field 'target' is missing: the code of the language to translate into.")
    values = _converted(given, get_type_hints(PlainFields))
    if not values.get("timeout_seconds", 1.0) > 0:
        raise bad_request("timeout_seconds: must be greater than 0.", "wrong_value")
    if values.get("n_best", 1) < 1:
        raise bad_request("n_best: must be at least 1.", "wrong_value")
    return PlainFields(**values)


def known_fields(fields: Fields, known: Collection[str]) -> Fields:
    """Returns the fields that are not null; raises Refusal for an unknown one."""
    for name in fields:
        if name not in known:
            raise bad_request(f"Unknown field '{name[:100]}'.{suggestion(name[:100], known)}", "unknown_field")
    return {name: value for name, value in fields.items() if value is not None}


def served_target(backend: Backend, code: str) -> str:
    """Returns the served language that a request means by its target; raises Refusal where there is none."""
    target = backend.target_language(code)
    if target is None:
        raise bad_request(f"The language '{code[:100]}' is not supported.", "unknown_language")
    return target


def _converted(given: Fields, hints: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that have a type in `hints`; a value of another type is refused."""
    try:
        return {name: convert(given[name], _without_none(hints[name]), name) for name in hints if name in given}
    except ConfigError as error:
        raise bad_request(str(error), "wrong_value") from None


def _without_none(hint: Any) -> Any:
    """Returns T for T | None."""
    arguments = get_args(hint)
    return arguments[0] if type(None) in arguments else hint


def read_texts(given: Fields, config: ServeConfig) -> tuple[list[str], bool]:
    """Returns the texts of a request, and whether they came as a list.

    Raises:
        Refusal: they are missing, or over a limit.
    """
    text: Any = given.get("text")
    if "text" not in given or text == []:
        raise bad_request("The field 'text' is missing: a text, or a list of texts.")
    wrong_type = f"text = {shown(text)}: must be a text, or a list of texts."
    too_many = "text: {} texts, and at most {} are allowed."
    return texts_within(text, config.limits, wrong_type, too_many, f"text: {_TOO_LONG}"), isinstance(text, list)


def _require_length(num_characters: int, config: ServeConfig, what: str) -> None:
    limit = config.limits.text_characters
    if num_characters > limit:
        raise bad_request(f"{what}: {_TOO_LONG.format(num_characters, limit)}", "too_long")


def search_options(given: Fields, config: ServeConfig) -> dict[str, Any]:
    """Returns the options of the search that a request sets."""
    ranges = ranges_of(DecodeConfig)
    search = {name: given[name] for name in sorted(SEARCH_FIELDS & given.keys())}
    try:
        for name, value in search.items():
            require_within(value, name, *ranges[name])
    except ConfigError as error:
        raise bad_request(str(error), "wrong_value") from None
    _require_at_most(search.get("beam_size", 1), "beam_size", config.limits.beam_size)
    _require_at_most(search.get("max_extra_tokens", 0), "max_extra_tokens", _MAX_EXTRA_TOKENS)
    return search


def _require_at_most(value: int, name: str, limit: int) -> None:
    if value > limit:
        raise bad_request(f"{name} = {value}: must be at most {limit} here.", "wrong_value")


def _prefixes(given: Fields, num_texts: int, is_list: bool) -> list[str] | None:
    prefix = given.get("prefix")
    if prefix is None:
        return None
    prefixes = prefix if is_list else [prefix]
    is_valid = isinstance(prefixes, list) and len(prefixes) == num_texts
    if not is_valid or not all(isinstance(each, str) for each in prefixes):
        demand = "a list with a text for each text" if is_list else "a text"
        raise bad_request(f"prefix = {shown(prefix)}: must be {demand}.", "wrong_value")
    return prefixes if any(prefixes) else None


def _phrases(given: Fields, name: str, num_texts: int, is_list: bool) -> list[Sequence[Any]] | None:
    """Returns for each text a list of phrases, or of terms; a single list holds for all texts."""
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise bad_request(f"{name} = {shown(value)}: must be a list.", "wrong_value")
    by_text = is_list and bool(value) and all(isinstance(each, list) for each in value)
    lists = value if by_text else [value] * num_texts
    if len(lists) != num_texts:
        raise bad_request(f"{name}: {len(lists)} lists for {num_texts} texts: give one for each.", "wrong_value")
    number = 0
    for listed in lists:
        for term in listed:
            choice = term if isinstance(term, list) and name == "required" else [term]
            if not choice or not all(isinstance(each, str) for each in choice):
                raise bad_request(f"{name} = {shown(value)}: {shown(term)} must be a text.", "wrong_value")
            number += len(choice)
    _require_few(number, name)
    return lists if any(lists) else None


def _require_few(number: int, name: str) -> None:
    if number > _MAX_TERMS:
        raise bad_request(f"{name}: {number:,} terms, and at most {_MAX_TERMS:,} are allowed.", "too_long")


def _require_short(value: Any, name: str, limit: int) -> None:
    longest = max(map(len, _texts_in(value)), default=0)
    if longest > limit:
        raise bad_request(f"{name}: a term has {longest:,} characters, and at most {limit:,} are allowed.", "too_long")


def _texts_in(value: Any) -> Iterator[str]:
    """Yields the texts in a field, however they are nested."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts_in(each)
        case dict():
            yield from value
            yield from _texts_in(list(value.values()))


def glossary_field(given: Fields, config: ServeConfig) -> dict[str, str | list[str]] | None:
    glossary = given.get("glossary")
    if glossary is None:
        return None
    if not isinstance(glossary, dict):
        raise bad_request(f"glossary = {shown(glossary)}: must be an object of terms.", "wrong_value")
    number = 0
    for term, translations in glossary.items():
        listed = translations if isinstance(translations, list) else [translations]
        if not listed or not all(isinstance(each, str) for each in listed):
            raise bad_request(f"glossary: {shown(term)} must have a text or a list of texts.", "wrong_value")
        number += len(listed)
    _require_few(number, "glossary")
    _require_short(glossary, "glossary", config.limits.term_characters)
    return glossary or None
