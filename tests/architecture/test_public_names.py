"""The names that users may rely on are there, are what they say, and are no more than these."""

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import python_reference
import transduce
import transduce.config
from text_engine import text_translator
from transduce.errors import ConfigError
from transduce.evaluation import evaluate
from transduce.evaluation.evaluation import ScoreOptions
from transduce.translation.pipeline import TextOptions
from transduce.translation.streams import translate_file
from transduce.translation.streams.cluster import ray_workers

PUBLIC = {
    "transduce": {"Attention", "Parse", "Parser", "TargetScore", "Translation", "Translator", "__version__"},
    "transduce.augmentation": {"MadeCorpus", "back_translate", "distill", "forward_translate"},
    "transduce.augmentation.student": {
        "DEFAULT_SHAPE",
        "Student",
        "StudentJob",
        "make_student",
        "student_config",
    },
    "transduce.augmentation.filtering": {
        "RULES",
        "Distribution",
        "Dropped",
        "FilterOptions",
        "FilterReport",
        "filter_corpus",
    },
    "transduce.config": {
        "Config",
        "DataConfig",
        "DecodeConfig",
        "InitConfig",
        "ModelConfig",
        "TextConfig",
        "TrainConfig",
        "apply_settings",
        "from_dict",
        "load_recipe",
        "preset",
        "preset_names",
        "to_dict",
    },
    "transduce.evaluation": {
        "METRICS",
        "Evaluation",
        "Score",
        "Text",
        "bleu",
        "chrf",
        "evaluate",
        "leakage_warnings",
        "paper_bleu",
        "tokenized_bleu",
    },
    "transduce.export": {
        "FORMATS",
        "Certificate",
        "Thresholds",
        "export_model",
        "import_huggingface",
        "import_torch",
    },
    "transduce.inspection": {
        "BEST_HEADS",
        "KINDS",
        "Head",
        "HeadStatistics",
        "Panel",
        "Unit",
        "View",
        "align",
        "alignment_scores",
        "best_heads",
        "choose_heads",
        "draw",
        "draw_panels",
        "explorer_page",
        "head_statistics",
        "parse_heads",
        "pharaoh",
        "view",
        "views",
        "word_weights",
        "write_arrays",
    },
    "transduce.model": {"DecoderState", "Memory", "Transformer", "prepack"},
    "transduce.treebank": {
        "BracketAnalysis",
        "BracketEvaluation",
        "BracketParameters",
        "BracketSummary",
        "COLLINS",
        "LabelScore",
        "PairedBootstrap",
        "SentenceBrackets",
        "analyse_brackets",
        "paired_bootstrap",
        "parse_scores",
        "read_bracket_parameters",
        "score_brackets",
        "summarise_parses",
        "Leaf",
        "Node",
        "Tree",
        "delinearise",
        "draw_svg",
        "draw_text",
        "escape_brackets",
        "linearise",
        "normalise",
        "parse_trees",
        "read_trees",
        "repair",
        "unescape_brackets",
    },
    "transduce.translation.documents": {
        "FORMATS",
        "DocumentJob",
        "DocumentSummary",
        "Format",
        "Languages",
        "TranslateTexts",
        "format_of",
        "recognised_format",
        "require_format",
        "translate_document",
    },
    "transduce.translation.pipeline": {"MARKUP_KINDS", "SPLIT_KINDS", "Request", "TextOptions", "run_pipeline"},
    "transduce.translation.set_scores": {
        "EvaluationSet",
        "SetScores",
        "read_test_sets",
        "score_sets",
        "scores_table",
    },
    "transduce.translation.streams": {
        "Columns",
        "JsonLines",
        "Layout",
        "PlainLines",
        "ResumableOutput",
        "StreamOutput",
        "Summary",
        "translate_file",
    },
    "transduce.verification": {"QUICK", "CheckResult", "Finding", "Outcome", "Report", "Settings", "Tie", "verify"},
    "transduce.text": {
        "BOS",
        "BOS_TOKEN",
        "EOS",
        "EOS_TOKEN",
        "PAD",
        "PAD_TOKEN",
        "SPECIAL_TOKENS",
        "UNK",
        "UNK_TOKEN",
        "SubwordTokenizer",
        "split_words",
        "word_of_each",
    },
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names(name: str) -> None:
    module = import_module(name)
    assert set(module.__all__) == PUBLIC[name]
    for public in PUBLIC[name]:
        assert getattr(module, public) is not None


def test_the_site_documents_the_public_packages() -> None:
    assert set(python_reference.PACKAGES) == set(PUBLIC)


@pytest.mark.parametrize(
    ("old", "name"), [("parsing", "read_trees"), ("passages", "TextOptions"), ("streams", "translate_file")]
)
def test_packages_of_0_1_can_be_imported_by_their_old_names(old: str, name: str) -> None:
    sys.modules.pop(f"transduce.{old}", None)
    with pytest.warns(DeprecationWarning, match=rf"transduce\.{old} is now transduce\."):
        module = import_module(f"transduce.{old}")
    assert name in module.__all__
    assert getattr(module, name).__module__.startswith(module.__name__)


@pytest.mark.parametrize(
    ("old", "new"),
    [("doubts_about_leaks", "transduce.evaluation.leakage_warnings")]
    + [
        (name, f"transduce.treebank.{name}")
        for name in [
            "BracketAnalysis",
            "BracketEvaluation",
            "BracketParameters",
            "BracketSummary",
            "COLLINS",
            "LabelScore",
            "SentenceBrackets",
            "analyse_brackets",
            "parse_scores",
            "read_bracket_parameters",
            "score_brackets",
            "summarise_parses",
        ]
    ],
)
def test_evaluation_keeps_its_names_of_0_1(old: str, new: str) -> None:
    evaluation = import_module("transduce.evaluation")
    module, name = new.rsplit(".", 1)
    with pytest.warns(DeprecationWarning, match=rf"transduce\.evaluation\.{old} is now {new}; "):
        assert getattr(evaluation, old) is getattr(import_module(module), name)
    with pytest.raises(AttributeError, match="has no attribute 'bluer'"):
        _ = evaluation.bluer


def test_evaluate_keeps_its_keywords() -> None:
    keywords = inspect.signature(evaluate).parameters
    options = {"language", "tokenized", "lowercase", "confidence"}
    assert set(keywords) == {"hypothesis", "references", "source", "metrics", "training", "options"}
    assert set(ScoreOptions.__annotations__) == options


def test_the_old_name_of_text_options_can_be_imported() -> None:
    pipeline = import_module("transduce.translation.pipeline")
    with pytest.warns(DeprecationWarning, match="Handling is now TextOptions"):
        assert pipeline.Handling is pipeline.TextOptions
    with pytest.raises(AttributeError, match="Handlin"):
        _ = pipeline.Handlin


def test_the_old_keyword_for_text_options_still_works(tmp_path: Path) -> None:
    translator, lines = text_translator(str.upper), ["A dog. A man."]
    options, renamed = TextOptions(split="always"), "handling is now text_options"
    with pytest.warns(DeprecationWarning, match=renamed):
        assert translator.translate(lines, handling=options) == ["A DOG. A MAN."]
    with pytest.warns(DeprecationWarning, match=renamed):
        [[best]] = translator.translate_n_best(lines, 1, handling=options)
    with pytest.warns(DeprecationWarning, match=renamed):
        [[other]] = translator.stream(lines, handling=options)
    assert best.num_parts == other.num_parts == 2
    (tmp_path / "in").write_text("A dog. A man.\n")
    with pytest.warns(DeprecationWarning, match=renamed):
        translate_file(translator, tmp_path / "in", tmp_path / "out", handling=options)
    with pytest.raises(ConfigError, match="was made with split = always, and now split = auto"):
        translate_file(translator, tmp_path / "in", tmp_path / "out", resume=True)


def keywords_of(method: Callable[..., Any]) -> set[str]:
    """Returns the names that a method takes, those of a typed dictionary included."""
    names = set()
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            [keywords] = get_args(get_type_hints(method)[name])
            names |= set(get_type_hints(keywords))
        else:
            names.add(name)
    return names


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Transalator"):
        _ = transduce.Transalator  # type: ignore[attr-defined]


def test_translator_and_parser_keep_their_keywords() -> None:
    """Calls written against these signatures must go on working: add to them, remove nothing."""
    for method in (transduce.Translator.translate, transduce.Translator.translate_n_best, transduce.Translator.stream):
        assert {"text_options", "handling"} <= keywords_of(method)
    load = {"engine", "device", "threads", "quantization", "ensemble", "shortlist"}
    assert {"path"} | load <= keywords_of(transduce.Translator.load)
    assert {"model", "address", "num_workers"} | load <= keywords_of(ray_workers)
    decode = set(transduce.config.DecodeConfig.__dataclass_fields__)
    constraints = {"prefixes", "forbidden", "required", "glossary"}
    assert {"lines"} | decode | constraints <= keywords_of(transduce.Translator.translate)
    assert {"lines", "n_best"} | decode | constraints <= keywords_of(transduce.Translator.translate_n_best)
    stream = {"options", "n_best", "window", "constraints", "glossary", "first_line", "origin"}
    assert {"lines"} | stream <= keywords_of(transduce.Translator.stream)
    job = {"layout", "options", "n_best", "text_options", "handling", "constraints", "glossary", "constraints_name"}
    job |= {"inline_terms", "check_end", "window", "resume", "overwrite", "progress", "warn"}
    job |= {"warn_of_lines", "lines", "to_continue"}
    assert {"translator", "source", "output"} | job <= keywords_of(translate_file)
    search = {"beam_size", "length_penalty", "max_extra_tokens", "batch_size"}
    assert {"source", "target"} <= keywords_of(transduce.Translator.attend)
    fields = {"text", "score", "log_probability", "tokens", "finished", "source_truncated"}
    assert fields <= set(transduce.Translation.__dataclass_fields__)
    assert {"path", "engine", "device", "threads"} <= keywords_of(transduce.Parser.load)
    assert {"sentences"} | search <= keywords_of(transduce.Parser.parse)
    assert {"words", "tree", "repaired", "score", "finished"} <= set(transduce.Parse.__dataclass_fields__)
    fields = {"source_pieces", "target_pieces", "source_words", "target_words", "encoder", "decoder", "cross"}
    assert fields <= set(transduce.Attention.__dataclass_fields__)
