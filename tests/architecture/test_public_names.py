"""The names that users may rely on are there, are what they say, and are no more than these."""

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest

import python_reference
import transduce
import transduce.config
from transduce.evaluation import evaluate
from transduce.evaluation.evaluation import ScoreOptions
from transduce.translation.streams import FileJob
from transduce.translation.streams.cluster import ray_workers

PUBLIC = {
    "transduce": {"Attention", "Parse", "Parser", "TargetScore", "Translation", "Translator", "__version__"},
    "transduce.augmentation": {"CorpusJob", "MadeCorpus", "back_translate", "distill", "forward_translate"},
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
        "columns_of",
        "format_of",
        "recognised_format",
        "require_format",
        "translate_document",
    },
    "transduce.translation.pipeline": {"MARKUP_KINDS", "SPLIT_KINDS", "Request", "TextOptions", "run_pipeline"},
    "transduce.translation.robustness": {"VersionScores", "robustness_table", "score_robustness"},
    "transduce.translation.set_scores": {
        "EvaluationSet",
        "SetScores",
        "read_test_sets",
        "score_sets",
        "scores_table",
    },
    "transduce.translation.streams": {
        "FileJob",
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
        "SentencePieceTokenizer",
        "SubwordTokenizer",
        "Tokenizer",
        "load_tokenizer",
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


def test_evaluate_keeps_its_keywords() -> None:
    keywords = inspect.signature(evaluate).parameters
    options = {"language", "tokenized", "lowercase", "confidence"}
    assert set(keywords) == {"hypothesis", "references", "source", "metrics", "training", "options"}
    assert set(ScoreOptions.__annotations__) == options


def test_a_file_job_keeps_its_fields() -> None:
    assert set(FileJob.__dataclass_fields__) >= {
        "layout", "options", "n_best", "text_options", "constraints", "glossary", "constraints_name", "inline_terms",
        "check_end", "window", "resume", "progress", "warn",
    }  # fmt: skip


def keywords_of(method: Callable[..., Any]) -> set[str]:
    """Returns the names that a method takes, those of a typed dictionary included."""
    names = set()
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            for keywords in get_args(get_type_hints(method)[name]):
                names |= set(get_type_hints(keywords))
        else:
            names.add(name)
    return names


@pytest.mark.parametrize("name", PUBLIC)
def test_every_path_that_is_given_may_be_a_string(name: str) -> None:
    results = {"MadeCorpus", "Student"}  # which we make
    for public in (getattr(import_module(name), each) for each in PUBLIC[name] - results):
        members = [getattr(public, each) for each in dir(public) if each == "__init__" or not each.startswith("_")]
        for called in members if inspect.isclass(public) else [public]:
            is_ours = inspect.isfunction(called) or inspect.ismethod(called)
            for parameter in inspect.signature(called).parameters.values() if is_ours else ():
                words = re.findall(r"\w+", str(parameter.annotation))
                assert "Path" not in words or "str" in words, f"{called.__qualname__}({parameter})"


def test_completion_offers_the_public_names() -> None:
    assert set(dir(transduce)) >= set(transduce.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Transalator"):
        _ = transduce.Transalator  # type: ignore[attr-defined]


def test_translator_and_parser_keep_their_keywords() -> None:
    """Calls written against these signatures must go on working: add to them, remove nothing."""
    for method in (transduce.Translator.translate, transduce.Translator.translate_n_best, transduce.Translator.stream):
        assert "text_options" in keywords_of(method)
    load = {"engine", "device", "threads", "quantization", "ensemble", "shortlist"}
    assert {"path"} | load <= keywords_of(transduce.Translator.load)
    assert {"model", "address", "num_workers"} | load <= keywords_of(ray_workers)
    decode = set(transduce.config.DecodeConfig.__dataclass_fields__)
    constraints = {"prefixes", "forbidden", "required", "glossary"}
    assert {"lines"} | decode | constraints <= keywords_of(transduce.Translator.translate)
    assert {"lines", "n_best"} | decode | constraints <= keywords_of(transduce.Translator.translate_n_best)
    stream = {"options", "n_best", "window", "constraints", "glossary"}
    assert {"lines"} | stream <= keywords_of(transduce.Translator.stream)
    search = {"beam_size", "length_penalty", "max_extra_tokens", "batch_size"}
    assert {"source", "target"} <= keywords_of(transduce.Translator.attend)
    fields = {"text", "score", "log_probability", "tokens", "finished", "source_truncated"}
    assert fields <= set(transduce.Translation.__dataclass_fields__)
    assert {"path", "engine", "device", "threads"} <= keywords_of(transduce.Parser.load)
    assert {"sentences"} | search <= keywords_of(transduce.Parser.parse)
    assert {"words", "tree", "repaired", "score", "finished"} <= set(transduce.Parse.__dataclass_fields__)
    fields = {"source_pieces", "target_pieces", "source_words", "target_words", "encoder", "decoder", "cross"}
    assert fields <= set(transduce.Attention.__dataclass_fields__)
