"""The fields of requests in the protocol of DeepL."""

from collections.abc import Collection
from typing import Any

from starlette.requests import Request

from transduce.serve.operations.keys import Key
from transduce.serve.web.backend import Backend
from transduce.serve.web.refusals import bad_request
from transduce.serve.web.request_body import Fields

_MAX_TAGS = 100
_MAX_TAG_NAME = 100  # characters
_UNSUPPORTED = ("style_id", "custom_instructions", "translation_memory_id", "glossary_ids")


def client_key(backend: Backend, request: Request) -> Key:
    """Returns the key in the header `Authorization: DeepL-Auth-Key KEY`; see `Backend.authorise`."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return backend.authorise(request, "deepl", secret.strip() if scheme.lower() == "deepl-auth-key" else None)


def refuse_unsupported(fields: Fields) -> None:
    """Raises Refusal for a field that would have to change the translation and cannot."""
    for name in _UNSUPPORTED:
        if fields.get(name) not in (None, "", []):
            raise bad_request(f"'{name}' is not supported.")
    formality = fields.get("formality")
    if formality not in (None, "", "default", "prefer_more", "prefer_less"):
        raise bad_request("'formality' is not supported: leave it out, or use 'prefer_more' or 'prefer_less'.")


def text_field(fields: Fields, name: str) -> str:
    """Returns a text; "" if it is missing."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_request(f"Value for '{name}' must be a text.")
    return value


def target_field(backend: Backend, fields: Fields) -> str:
    """Returns the served language that is meant by `target_lang`; raises Refusal where there is none."""
    given = text_field(fields, "target_lang")
    if not given:
        raise bad_request("Parameter 'target_lang' not specified.")
    code = backend.target_language(given)
    if code is None:
        raise bad_request("Value for 'target_lang' not supported.")
    return code


def choice_field(fields: Fields, name: str, known: Collection[str]) -> str | None:
    """Returns one of the known values; None if it is missing."""
    value = fields.get(name)
    if value in (None, ""):
        return None
    if str(value) not in known or isinstance(value, bool):
        raise bad_request(f"Value for '{name}' not supported: use one of {', '.join(known)}.")
    return str(value)


def tag_names(given: Any) -> list[str]:
    """Returns the names of tags; they come as a list, or separated by commas."""
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(each, str) for each in listed):
        raise bad_request("Value for 'ignore_tags' must be a list of names of tags.")
    names = [name.strip() for each in listed for name in each.split(",") if name.strip()]
    if len(names) > _MAX_TAGS:
        raise bad_request(f"Too many 'ignore_tags': {len(names)}, at most {_MAX_TAGS}.")
    if any(len(name) > _MAX_TAG_NAME for name in names):
        raise bad_request(f"Value for 'ignore_tags' has a name of more than {_MAX_TAG_NAME} characters.")
    return names
