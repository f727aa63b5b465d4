"""What a translator passes on of each call: to the pipeline, to the engine, and to what loads it."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from made_models import made_bundle
from text_engine import text_translator
from transduce.config import DecodeConfig
from transduce.errors import BundleError, ConfigError
from transduce.text import SubwordTokenizer
from transduce.translation import translator as module
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.directions import Directions
from transduce.translation.pipeline import Request, TextOptions
from transduce.translation.result import Translation
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

PAIRS = (("en", "de"), ("fr", "de"), ("en", "fr"))


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Window, Request]]:
    """Returns the windows and requests that reach the pipeline, which returns each line with its number."""
    calls: list[tuple[Window, Request]] = []

    def run(model: Any, window: Window, request: Request) -> list[list[Translation]]:
        calls.append((window, request))
        return [
            [Translation(f"{line} {n}", 0.0, 0.0, (), True, False) for n in range(request.n_best)]
            for line in window.lines
        ]

    monkeypatch.setattr(module, "run_pipeline", run)
    return calls


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Translator:
    found = text_translator()
    found.options = DecodeConfig(beam_size=3, batch_size=2, length_penalty=0.5)
    monkeypatch.setattr(Translator, "directions", Directions(PAIRS, ("de", "fr"), ("law",)))
    return found


def test_a_list_of_lines(piped: list[tuple[Window, Request]], translator: Translator) -> None:
    given: dict[str, Any] = {
        "prefixes": ["A", ""],
        "forbidden": ["x"],
        "required": [["y"], [["z", "w"]]],
        "glossary": {"dog": "Hund"},
        "text_options": TextOptions(confidence=True, target="de", domain="law"),
        "beam_size": 2,
        "min_tokens": 4,
        "length_penalty": None,
    }
    assert translator.translate(["a", "b"], **given) == ["a 0", "b 0"]
    found = translator.translate_n_best(["a", "b"], 2, **given)
    assert [[best.text for best in line] for line in found] == [["a 0", "a 1"], ["b 0", "b 1"]]
    options = DecodeConfig(beam_size=2, batch_size=2, length_penalty=0.5, min_tokens=4)
    for (window, request), n_best in zip(piped, (1, 2), strict=True):
        assert (window.first, window.lines, window.origin) == (1, ["a", "b"], "")
        assert window.constraints == [
            Constraints("A", ("x",), (("y",),)),
            Constraints("", ("x",), (("z", "w"),)),
        ]
        assert (request.options, request.n_best) == (options, n_best)
        assert request.text_options == TextOptions(confidence=True, target="de", domain="law")
        assert request.glossary is not None
        assert request.glossary.required_in("dog") == (("Hund",),)
    piped.clear()
    translator.translate(["a"])
    assert piped == [(Window(1, ["a"]), Request(translator.options))]


def test_a_stream_of_lines(piped: list[tuple[Window, Request]], translator: Translator) -> None:
    own, constraints = DecodeConfig(beam_size=2, batch_size=1), [Constraints(prefix=text) for text in "xyz"]
    found = translator.stream(
        iter(["a", "b", "c"]), options=own, n_best=2, window=2,
        text_options=TextOptions(guard=True, target="fr", domain="law"),
        constraints=iter(constraints), glossary={"dog": "Hund"},
    )  # fmt: skip
    assert [[best.text for best in line] for line in found] == [[f"{x} 0", f"{x} 1"] for x in "abc"]
    assert [window for window, _ in piped] == [
        Window(1, ["a", "b"], constraints[:2]),
        Window(3, ["c"], constraints[2:]),
    ]
    for _, request in piped:
        assert (request.options, request.n_best) == (own, 2)
        assert request.text_options == TextOptions(guard=True, target="fr", domain="law")
        assert request.glossary is not None
    piped.clear()
    assert [best.text for best, *_ in translator.stream(io.StringIO("a\n\nb"))] == ["a 0", " 0", "b 0"]  # an open file
    piped.clear()
    assert [best.text for best, *_ in translator.stream(["a"] * 65)] == ["a 0"] * 65
    assert [(window.first, len(window.lines)) for window, _ in piped] == [(1, 64), (65, 1)]  # 32 batches of two
    assert piped[0][1] == Request(translator.options)


def test_a_pair_that_the_model_was_not_trained_on_is_named(
    piped: list[tuple[Window, Request]], translator: Translator
) -> None:
    for translate in (translator.translate, lambda lines, **given: translator.translate_n_best(lines, 1, **given)):
        with pytest.warns(UserWarning, match="^fr → fr is zero-shot") as caught:
            translate(["a"], text_options=TextOptions(language="fr", target="fr"))
        assert caught[0].filename == __file__
        translate(["a"], text_options=TextOptions(language="fr", target="de"))


def test_questions_about_one_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, "directed", lambda model, *direction: SimpleNamespace(engine=direction))
    monkeypatch.setattr(module, "attend", lambda model, *given: asked.append((model.engine, *given)))
    monkeypatch.setattr(module, "score_targets", lambda model, *given: asked.append((model.engine, *given)))
    monkeypatch.setattr(
        "transduce.translation.alternatives.alternatives", lambda model, *given: asked.append((model.engine, *given))
    )
    translator = text_translator()
    translator.options = options = DecodeConfig(length_penalty=0.5)
    direction: dict[str, Any] = {"target_language": "fr", "domain": "law"}
    for more in (direction, {}):
        translator.score(["a"], ["b"], **more)
        translator.attend("a", **more)
        translator.alternatives("a", "b", **more)
    translator.score(["a"], ["b"], length_penalty=2.0)
    translator.attend("a", "b")
    translator.alternatives("a", "b", 7)
    plain, chosen = ("", "", ""), ("", "fr", "law")
    assert asked == [
        *((*call,) for engine in (chosen, plain) for call in (
            (engine, ["a"], ["b"], 0.5),
            (engine, options, "a", None),
            (engine, options, "a", "b", 5),
        )),
        (plain, ["a"], ["b"], 2.0),
        (plain, options, "a", "b"),
        (plain, options, "a", "b", 7),
    ]  # fmt: skip


def test_what_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = made_bundle(tmp_path / "a"), made_bundle(tmp_path / "b", seed=2)
    calls: list[tuple[Any, ...]] = []

    def note(name: str, result: Any) -> None:
        def fake(*args: Any, **options: Any) -> Any:
            calls.append((name, args, options))
            return result

        monkeypatch.setattr(module, name, fake)

    choice = SimpleNamespace(name="told")
    note("require_engine", None)
    note("choose_engine", choice)
    note("load_engine", "an engine")
    note("reads_shortlist", "maybe")
    note("checksums_of", {"the model": "12"})
    given: dict[str, Any] = {
        "device": "cuda:1",
        "threads": 3,
        "quantization": "int8",
        "shortlist": "auto",
        "draft": "self",
    }
    found = Translator.load(first.path, engine="torch", ensemble=[second.path], **given)
    assert (found.engine, found.options, found.checksums) == ("an engine", first.config.decode, {"the model": "12"})
    assert found.bundle is not None
    assert found.bundle.path == first.path
    names = [name for name, *_ in calls]
    assert names == ["require_engine", "choose_engine", "load_engine", "reads_shortlist", "checksums_of"]
    required, chosen, loaded, wished, read = calls
    assert required[1] == ("torch", "int8")
    assert chosen[1] == ("torch", "int8")
    assert chosen[2] == {
        "device": "cuda:1",
        "model": first.config.model,
        "num_models": 2,
        "shortlist": "auto",
        "draft": "self",
    }
    assert (loaded[1][0].path, loaded[1][1]) == (first.path, choice)
    assert [each.path for each in loaded[2].pop("others")] == [second.path]
    assert loaded[2] == given
    assert (wished[1][0].path, *wished[1][1:]) == (first.path, choice, "auto")
    assert (read[1][0].path, [each.path for each in read[1][1]], read[2]) == (
        first.path,
        [second.path],
        {"with_shortlist": "maybe"},
    )
    calls.clear()
    Translator.load(str(first.path))
    assert calls[0][1] == ("auto", None)
    assert calls[1][2] == {
        "device": "auto",
        "model": first.config.model,
        "num_models": 1,
        "shortlist": "off",
        "draft": "",
    }
    assert calls[2][2] == {
        "device": "auto",
        "threads": None,
        "quantization": None,
        "others": [],
        "shortlist": "off",
        "draft": "",
    }
    other = SimpleNamespace(path="there", tokenizer=SubwordTokenizer.train(["other"], algorithm="bpe", vocab_size=261))
    load = module.Bundle.load
    monkeypatch.setattr(module.Bundle, "load", lambda path: cast(Any, other) if path == Path("there") else load(path))
    with pytest.raises(BundleError, match=r"^there: its tokenizer is not that of "):
        Translator.load(first.path, ensemble=[second.path, "there"])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"text_options": {"guard": True}}, r"^Give text_options as transduce\.translation\.pipeline\.TextOptions"),
        ({"text_options": {}}, r"^Give text_options as "),
        ({"text_options": "guard"}, r"^Give text_options as "),
        ({"prefixes": [None]}, r"^Give a list of prefixes or phrases, each a str"),
    ],
)
def test_options_of_other_types_are_named(
    piped: list[tuple[Window, Request]], translator: Translator, wrong: dict[str, Any], error: str
) -> None:
    with pytest.raises(TypeError, match=error):
        translator.translate(["a"], **wrong)
    with pytest.raises(TypeError, match=error):
        translator.translate_n_best(["a"], 1, **wrong)
    assert not piped


@pytest.mark.parametrize("n_best", [1.5, True, "2", None])
def test_the_number_of_translations_is_a_whole_number(
    piped: list[tuple[Window, Request]], translator: Translator, n_best: Any
) -> None:
    with pytest.raises(ConfigError, match=r"^n-best = .*: must be a whole number\.$"):
        translator.translate_n_best(["a"], n_best)
    with pytest.raises(ConfigError, match=r"^n-best = .*: must be a whole number\.$"):
        list(translator.stream(["a"], n_best=n_best))
    assert not piped


@pytest.mark.parametrize(
    ("wrong", "kind", "error"),
    [
        ({"options": {"beam_size": 2}}, TypeError, "^Give options as a DecodeConfig"),
        ({"text_options": {}}, TypeError, "^Give text_options as "),
        ({"window": 0}, ConfigError, r"^window = 0: must be from 1 to "),
        ({"window": -1}, ConfigError, r"^window = -1: must be from 1 to "),
        ({"window": 1.5}, ConfigError, r"^window = 1\.5: must be a whole number"),
        ({"lines": [b"a"]}, TypeError, "^Give lines that are str each"),
        ({"lines": io.BytesIO(b"a")}, TypeError, "^Give lines that are str each"),
    ],
)
def test_a_stream_names_what_has_another_type(
    piped: list[tuple[Window, Request]],
    translator: Translator,
    wrong: dict[str, Any],
    kind: type[Exception],
    error: str,
) -> None:
    with pytest.raises(kind, match=error):
        list(translator.stream(**{"lines": ["a"]} | wrong))
    assert not piped


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"guard": "no"}, r"^guard = 'no': must be True or False\.$"),
        ({"signs": 1}, r"^signs = 1: must be True or False\.$"),
        ({"language": 5}, r"^language = 5: must be a text\.$"),
        ({"target": None}, r"^target = None: must be a text\.$"),
        ({"split": None}, r"^split = None: must be a text\.$"),
    ],
)
def test_options_of_text_have_their_types(wrong: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        TextOptions(**wrong)
