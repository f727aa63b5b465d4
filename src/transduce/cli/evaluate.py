"""Scores translations against references: sacreBLEU with its signature, chrF, and BLEU as the paper computed it.

Line n of the hypothesis is compared with line n of each reference. Text is plain (detokenised) unless --tokenized is
given. Files may end in .gz or .zst; "-" is standard input. Scores go to standard output, warnings to standard error.

--source and --reference may name one translation memory (.tmx): its texts in the source language, and those in the
target language. --source-language and --target-language say which these are; else the model does, or the memory itself.

examples:
  transduce evaluate --hypothesis test.out --reference test.de
  transduce translate models/m30k --source test.en | transduce evaluate --hypothesis - --reference test.de
  transduce evaluate --hypothesis test.out --reference test.de --source test.en --paper --intervals
  transduce evaluate --hypothesis test.tok.out --reference test.tok.de --tokenized --lowercase
  transduce evaluate --model models/m30k --source test.en --reference test.de
  transduce evaluate --hypothesis test.out --reference test.de --source test.en --train train.en train.de
  transduce evaluate --model runs/many/model
  transduce evaluate --model runs/many/model --sets de-fr --intervals --corpus corpora/many
  transduce evaluate --model runs/many/model --translate --source test.de --reference test.fr --target fr
  transduce evaluate --model models/m30k --translate --source memory.tmx --reference memory.tmx
  transduce evaluate --model runs/m30k/model --robustness

metrics:
  bleu        sacreBLEU with WMT's tokenizer, 13a; if most letters of the references are Chinese, with zh; if they are
              of another script without spaces, by characters (char); with --tokenized, on the given tokens
  bleu-NAME   sacreBLEU with the tokenizer 13a, intl (all of Unicode), zh, char, ja-mecab or ko-mecab; the last two
              need the packages that sacreBLEU names
  bleu-paper  as in the paper: Moses-like tokens, compounds split, quotes normalised (same as --paper)
  chrf        character n-grams (chrF2)
  chrf++      character and word n-grams

--model alone translates the test sets of its recipe (data.test, data.test_sets), each in its own direction, and prints
a table with a row for each: languages, perplexity and scores. A pair of languages that the model was not trained on is
marked as zero-shot. --translate does the same with one set: --source and --reference.

--robustness translates each of these sets in several versions: in capitals, with typos, with codes to copy, two lines
in one, already translated, and others. The table has a row for each version: its scores, the share of lines whose item
was copied to the letter, and the share of translations that repeat themselves. Nothing is protected or searched again.

With --source and --reference, --model adds the model's perplexity per subword of the (first) reference. It needs no
PyTorch. --train names the training text of both sides (each tab-separated column counts as a line): a warning counts
the test lines of 16 bytes or more that occur in it, regardless of case and punctuation.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.cli.arguments import add_direction, add_machine, add_options, add_repairs, decode_changes
from transduce.cli.open_model import (
    Opened,
    languages_of_memory,
    load_translator,
    open_model,
    open_translator,
    require_named_target,
)
from transduce.cli.options import add_path, add_switch, add_text, option_name
from transduce.cli.output import print_report, warn
from transduce.data.tmx import is_tmx
from transduce.errors import ConfigError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transduce.evaluation import Evaluation, Text
    from transduce.evaluation.evaluation import ScoreOptions
    from transduce.translation.set_scores import EvaluationSet

    Texts = dict[tuple[str, int], Text]  # by the name of the file, and the side: 0 is the source

SUMMARY = "score translations: BLEU with signature, chrF, the paper's BLEU"

_STANDARD_INPUT = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_text(parser, "--hypothesis", "FILE", "translations, one per line; needed without --model")
    add_text(parser, "--reference", "FILE", "one or more references", default=[], nargs="+")
    add_text(parser, "--source", "FILE", "the source: adds a warning of untranslated lines")
    add_path(parser, "--model", "MODEL", "measure this model; see above")
    add_text(parser, "--metrics", "NAME", "see above; default: bleu chrf", nargs="+", default=["bleu", "chrf"])
    add_switch(parser, "--paper", "add BLEU as the paper computed it")
    add_switch(parser, "--tokenized", "the text is tokenised already")
    add_switch(parser, "--lowercase", "ignore case")
    language = "target language, for the paper's BLEU; default: from the reference's name, as in test.de"
    add_text(parser, "--target-language", "CODE", language)
    add_switch(parser, "--intervals", "add 95 %% confidence intervals (bootstrap)")
    training = "training text: adds a warning of test lines that occur in it"
    add_path(parser, "--train", "FILE", training, nargs="+", default=[])
    add_switch(parser, "--json", "print JSON, warnings included")
    sets = parser.add_argument_group("translating with --model")
    add_switch(sets, "--translate", "translate --source and score that")
    add_switch(sets, "--robustness", "also in capitals, with typos, with codes to copy, …; see above")
    add_repairs(sets)
    add_text(sets, "--sets", "NAME", "test sets of the recipe; default: all", nargs="+", default=[])
    add_path(sets, "--recipe", "FILE", "whose test sets; default: the model's own recipe")
    add_path(sets, "--corpus", "DIR", "their folder; default: as the recipe says")
    add_options(parser, "search")
    add_direction(parser)
    add_machine(parser)


def run(args: argparse.Namespace) -> int:
    """Scores the files and prints the report."""
    if args.model is None and args.hypothesis is None:
        raise ConfigError("Nothing to score: give --hypothesis FILE, or --model MODEL.")
    names = [name for name in (args.hypothesis, *args.reference, args.source) if name is not None]
    if [*names, *map(str, args.train)].count(_STANDARD_INPUT) > 1:
        raise ConfigError("standard input ('-') can be only one of the files.")
    if args.source in args.reference and not is_tmx(Path(args.source)):
        raise ConfigError(
            f"{args.source} is named as source and as reference. Only a translation memory (.tmx) has both: make two "
            "files of a table, such as by cut -f1 and cut -f2."
        )
    if _translates(args):
        return _evaluate_sets(args)
    if not args.reference:
        raise ConfigError("Nothing to compare with: add --reference FILE.")
    if args.model is not None and args.source is None:
        raise ConfigError("--model measures the perplexity of the reference given the source: add --source FILE.")
    for name in ("metrics", "paper", "tokenized", "lowercase", "intervals"):
        if args.hypothesis is None and getattr(args, name) != args.parser.get_default(name):
            raise ConfigError(f"{option_name(name)} is for translations: add --hypothesis FILE, or --translate.")
    sides = [(name, 1) for name in (args.hypothesis, *args.reference) if name is not None]
    if args.source is not None:
        sides.append((args.source, 0))
    languages = _languages(args)
    texts = {each: _read(*each, languages) for each in dict.fromkeys(sides)}
    training = _training(args.train, languages)
    measured = _perplexity(args, texts) if args.model is not None else {}
    evaluation = _score(args, texts, training) if args.hypothesis is not None else None
    warnings = _leaks(args, texts, training) if evaluation is None else evaluation.warnings
    if args.json:
        scores = evaluation.to_dict() if evaluation is not None else {"warnings": list(warnings)}
        print(json.dumps(scores | measured, indent=2, ensure_ascii=False))
        return 0
    if measured:
        value, count = measured["perplexity"], measured["subwords"]
        print(f"perplexity {value:.3f} per subword of {args.model} ({counted(count, 'subword')}, EOS counted)")
    for warning in warnings:
        warn(warning)
    if evaluation is not None:
        print(evaluation.to_text())
    return 0


def _translates(args: argparse.Namespace) -> bool:
    """Whether the model translates what is scored; checks that the options go with that."""
    whole_recipe = args.model is not None and not (args.hypothesis or args.reference or args.source)
    of_recipe = {"--sets": args.sets, "--recipe": args.recipe, "--corpus": args.corpus}
    if not whole_recipe and (given := next((name for name, value in of_recipe.items() if value), "")):
        raise ConfigError(f"{given} is for the test sets of a recipe: give --model MODEL without files.")
    if args.translate and (args.model is None or args.source is None or not args.reference or args.hypothesis):
        raise ConfigError("--translate needs --model, --source and --reference, and no --hypothesis.")
    if whole_recipe and (args.target or args.domain or args.source_language):
        raise ConfigError(
            "--target, --domain and --source-language are for --source: each test set of the recipe says its own."
        )
    translates = whole_recipe or args.translate
    if args.robustness and not translates:
        raise ConfigError("--robustness translates: give --model MODEL without files, or add --translate.")
    for name in ("capitals", "signs"):
        if getattr(args, name) and not translates:
            raise ConfigError(f"--{name} is for translating: give --model MODEL without files, or add --translate.")
    if args.robustness and args.train:
        raise ConfigError("--train looks for test lines as they are: leave it out with --robustness.")
    if not translates and any(value is not None for value in decode_changes(args).values()):
        raise ConfigError("Options of the search are for translating: add --translate.")
    return translates


def _evaluate_sets(args: argparse.Namespace) -> int:
    """Translates the test sets of a recipe, or one that is given, and prints a row for each, or for each version."""
    from transduce.translation.pipeline import TextOptions
    from transduce.translation.robustness import robustness_table, score_robustness
    from transduce.translation.set_scores import score_sets, scores_table

    opened = open_translator(args, directed=args.translate)
    if args.translate:
        require_named_target(opened.bundle, args.target, Path(args.reference[0]))
    sets = [_given_set(args)] if args.translate else _sets_of_recipe(args, opened)
    training = _training(args.train, _languages(args))
    translator = load_translator(args, opened)
    given: Any = {
        "search": opened.options,
        "metrics": _metrics(args),
        "progress": not args.quiet and sys.stderr.isatty(),
        "text_options": TextOptions(capitals=bool(args.capitals), signs=bool(args.signs)),
        "options": _score_options(args),
    }
    if args.robustness:
        measured = score_robustness(translator, sets, **given)
        if args.json:
            print(json.dumps({"versions": [each.to_dict() for each in measured]}, indent=2, ensure_ascii=False))
            return 0
        for scored in measured:
            for warning in scored.warnings:
                warn(warning)
        print_report(robustness_table(measured))
        return 0
    scores = score_sets(translator, sets, **given)
    warnings = [warning for each in scores for warning in each.evaluation.warnings]
    if training:
        from transduce.evaluation import leakage_warnings

        warnings += leakage_warnings([text for each in sets for text in each.texts], training)
    if args.json:
        report = {"sets": [each.to_dict() for each in scores], "warnings": warnings}
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return 0
    for warning in warnings:
        warn(warning)
    print_report(scores_table(scores))
    return 0


def _sets_of_recipe(args: argparse.Namespace, opened: Opened) -> list["EvaluationSet"]:
    from transduce.config import load_recipe
    from transduce.translation.set_scores import read_test_sets

    config = load_recipe(args.recipe) if args.recipe is not None else opened.bundle.config
    data = config.data if args.corpus is None else dataclasses.replace(config.data, folder=str(args.corpus))
    return read_test_sets(data, args.sets)


def _given_set(args: argparse.Namespace) -> "EvaluationSet":
    from transduce.translation.set_scores import EvaluationSet

    languages = _languages(args)
    return EvaluationSet(
        name=Path(args.source).name,
        source=_read(args.source, 0, languages),
        references=[_read(name, 1, languages) for name in args.reference],
        source_language=args.source_language,
        target_language=args.target,
        domain=args.domain,
    )


def _metrics(args: argparse.Namespace) -> list[str]:
    return list(dict.fromkeys([*args.metrics, *(["bleu-paper"] if args.paper else [])]))


def _score_options(args: argparse.Namespace) -> "ScoreOptions":
    """Returns the options of the scores; the language of the target only where --target-language names it."""
    options: ScoreOptions = {
        "tokenized": args.tokenized,
        "lowercase": args.lowercase,
        "confidence": args.intervals,
    }
    if args.target_language is not None:
        options["language"] = args.target_language
    return options


def _perplexity(args: argparse.Namespace, texts: "Texts") -> dict[str, Any]:
    from transduce.data.treebank_reader import sentence_reader
    from transduce.evaluation.texts import require_aligned
    from transduce.translation.set_scores import EvaluationSet, reference_scores

    source, reference = texts[args.source, 0], texts[args.reference[0], 1]
    require_aligned(source, [reference])
    opened = open_model(args, search=False)
    require_named_target(opened.bundle, args.target, Path(args.reference[0]))
    translator = load_translator(args, opened)
    read = sentence_reader(opened.bundle.config.data, opened.bundle.tokenizer)
    given = EvaluationSet(
        name=source.name,
        source=dataclasses.replace(source, lines=list(map(read, source.lines))),
        references=[reference],
        source_language=args.source_language,
        target_language=args.target,
        domain=args.domain,
    )
    summary = reference_scores(translator, given)
    return {"perplexity": summary.perplexity, "subwords": summary.pieces}


def _leaks(args: argparse.Namespace, texts: "Texts", training: dict[str, "Iterator[str]"]) -> list[str]:
    from transduce.evaluation import leakage_warnings

    if not training:
        return []
    source = [] if args.source is None else [texts[args.source, 0]]
    return leakage_warnings([*source, *(texts[name, 1] for name in args.reference)], training)


def _training(paths: list[Path], languages: tuple[str, str]) -> dict[str, "Iterator[str]"]:
    """Returns the lines of each file, or the pairs of a memory as lines, lazily; a missing file is an error at once."""
    from transduce.data.readers import read_lines, read_pairs

    lines = {str(path): read_lines(path) for path in paths if not is_tmx(path)}
    memories = {f"the pairs of {path}": read_pairs([path], languages=languages) for path in paths if is_tmx(path)}
    return lines | {name: map("\t".join, pairs) for name, pairs in memories.items()}


def _score(args: argparse.Namespace, texts: "Texts", training: dict[str, "Iterator[str]"]) -> "Evaluation":
    from transduce.evaluation import evaluate

    options: ScoreOptions = {"language": _language_of_reference(args), **_score_options(args)}
    return evaluate(
        texts[args.hypothesis, 1],
        [texts[name, 1] for name in args.reference],
        source=texts[args.source, 0] if args.source is not None else None,
        metrics=_metrics(args),
        training=training,
        **options,
    )


def _language_of_reference(args: argparse.Namespace) -> str:
    """Returns the target language by the name of the reference's file, or by the memory; "" if they do not say."""
    from transduce.data.readers import PairReader
    from transduce.text.languages import language_of

    path = Path(args.reference[0])
    if not is_tmx(path):
        return language_of(path)
    reader = PairReader([path], languages=_languages(args))
    for _ in reader:
        pass
    return reader.languages[1]


def _languages(args: argparse.Namespace) -> tuple[str, str]:
    """Returns which languages to read from a memory, "" where neither the command nor the model says."""
    named = [name for name in (args.hypothesis, args.source, *args.reference, *args.train) if name is not None]
    if not any(is_tmx(Path(name)) for name in named):
        return "", ""
    return languages_of_memory(args.model, args.source_language, args.target or args.target_language or "")


def _read(name: str, side: int, languages: tuple[str, str]) -> "Text":
    """Reads a file; `side` 0 is the source of a memory, 1 its target."""
    from transduce.data.readers import read_lines, read_pairs
    from transduce.evaluation import Text

    path = Path(name)
    if not is_tmx(path):
        return Text("standard input" if name == _STANDARD_INPUT else name, list(read_lines(path)))
    lines = [pair[side] for pair in read_pairs([path], languages=languages)]
    return Text(f"{name}, {'target' if side else 'source'}", lines)
