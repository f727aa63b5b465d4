r"""Scores given translations: how probable the model finds each target line, given its source line.

examples:
  transduce score models/m30k --source test.en --target test.de
  transduce score models/m30k --source test.en --target test.de --tokens
  transduce score models/m30k --source test.en --target test.de --json --output scores.jsonl
  transduce score models/a --ensemble models/b models/c --source test.en --target test.de
  transduce score models/m30k --source crawled.en --target crawled.de | paste - crawled.en crawled.de | sort -g

The output has a tab-separated row for each pair:

  perplexity       exp of the mean -log p of a piece; 1 is certain; wrong translations have high values
  score            log-probability / ((5 + length) / 6)^alpha, as in a search
  log-probability  sum over the pieces of the target and its end mark; natural logarithm

--tokens writes a row for each piece instead: line number, piece ("▁" is a space, "</s>" the end), log-probability.
--json writes an object for each pair, with all values. A summary of all lines goes to standard error.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_direction, add_ensemble, add_machine, add_option, add_output, require_output
from transduce.cli.open_model import load_translator, open_model, read_sides, require_named_target
from transduce.cli.options import add_path, add_switch
from transduce.cli.output import open_output, say, warn_truncated
from transduce.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transduce.translation.forced_scores import TargetScore

SUMMARY = "score given translations: log-probability and perplexity, by line or by piece"

_WINDOW = 1024  # pairs read at a time, and scored in batches of similar length


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "model", "MODEL", "model folder")
    add_path(parser, "--source", "FILE", "text, .gz or .zst; - is stdin; or a TMX, for --target too", required=True)
    add_path(parser, "--target", "FILE", "its translation, line for line", required=True)
    add_output(parser)
    form = parser.add_mutually_exclusive_group()
    add_switch(form, "--tokens", "write a row for each piece")
    add_switch(form, "--json", "write an object for each pair")
    add_option(parser, "length_penalty", "; default: the model's")
    add_direction(parser, target="--target-language")
    add_ensemble(parser)
    add_machine(parser, batches=False)


def run(args: argparse.Namespace) -> int:
    """Scores the pairs, and returns the exit code."""
    from transduce.data.readers import STDIN, shown_name
    from transduce.data.treebank_reader import sentence_reader
    from transduce.translation.forced_scores import ScoreSummary

    if args.source == args.target == STDIN:
        raise ConfigError("standard input ('-') can be only one of --source and --target.")
    require_output(args)
    pairs = read_sides(args.source, args.target, args.model, args.target_language)
    opened = open_model(args, search=False)
    require_named_target(opened.bundle, args.target_language, args.target, "--target-language")
    translator = load_translator(args, opened)
    read = sentence_reader(translator.bundle.config.data, translator.tokenizer) if translator.bundle else str
    summary, number = ScoreSummary(), 0
    with open_output(args.output) as output:
        while chunk := list(itertools.islice(pairs, _WINDOW)):
            sources, targets = zip(*chunk, strict=True)
            try:
                scores = translator.score(
                    list(map(read, sources)),
                    targets,
                    length_penalty=args.length_penalty,
                    source_language=args.source_language,
                    target_language=args.target_language,
                    domain=args.domain,
                )
            except DataError as error:
                raise DataError(f"{shown_name(args.target)}, from line {number + 1:,} on: {error}") from None
            summary.add(scores)
            for each in scores:
                number += 1
                if each.source_truncated:
                    limit = translator.engine.max_source_tokens
                    warn_truncated(f"{shown_name(args.source)}, line {number}", limit, "read")
                output.writelines(_rows(number, each, tokens=args.tokens, as_json=args.json))
        if not number:
            raise DataError(f"{shown_name(args.source)} has no lines: there is nothing to score.")
    say(str(summary), quiet=args.quiet)
    return 0


def _rows(number: int, scored: "TargetScore", *, tokens: bool, as_json: bool) -> Iterator[str]:
    if tokens:
        for piece, log_probability in zip(scored.pieces, scored.log_probabilities, strict=True):
            yield f"{number}\t{piece}\t{log_probability:.6f}\n"
    elif as_json:
        values = {
            "line": number,
            "perplexity": scored.perplexity,
            "score": scored.score,
            "log_probability": scored.log_probability,
            "pieces": scored.pieces,
            "log_probabilities": scored.log_probabilities,
        }
        yield json.dumps(values, ensure_ascii=False) + "\n"
    else:
        yield f"{scored.perplexity:.6g}\t{scored.score:.6f}\t{scored.log_probability:.6f}\n"
