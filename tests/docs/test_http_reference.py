"""The reference of the HTTP interface, as the site makes it, has each operation and each of its fields."""

from http_reference import document, reference

_REFERENCE = reference()


def test_each_operation_is_there() -> None:
    operations = [
        (method, path) for path, each in document()["paths"].items() for method in each if method != "parameters"
    ]
    assert len(operations) > 25
    assert not [pair for pair in operations if f"### `{pair[0].upper()} {pair[1]}`\n" not in _REFERENCE]


def test_fields_have_types_and_meanings() -> None:
    schema = document()["components"]["schemas"]["TranslateRequest"]
    assert not [name for name in schema["properties"] if f"| `{name}`" not in _REFERENCE]
    rows = _REFERENCE.splitlines()
    assert "| `n_best` | integer from 1 | Translations of each text. Default: `1`. |" in rows
    assert '| `source` | string | "auto" detects it for each text. Default: `"auto"`. |' in rows
    assert "| `translations[].words[].probability` | number from 0 to 1 |  |" in rows
