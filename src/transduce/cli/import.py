"""Makes a model folder from another system's model, and checks that it gives the same results here.

examples:
  transduce import exports/m30k --output models/back
  transduce import mine.safetensors --description mine.toml --tokenizer bpe.json --output models/mine

The format is recognised from the files at PATH, unless --format names it.

  huggingface   a folder of transformers: MarianMTModel or PegasusForConditionalGeneration, relu, safetensors, with a
                byte-level tokenizer.json
  torch         the state dict of a torch.nn.Transformer as safetensors, and a TOML file that describes it:

    num_heads = 8
    norm_first = false
    source_embedding = "source.weight"   # names in the state dict; all three may be the same
    target_embedding = "target.weight"
    output = "generator.weight"
    embedding_scale = "sqrt"             # embeddings are multiplied by the root of d_model; or "none"
    positions = "interleaved"            # or "concatenated", or "learned" with source_positions, target_positions
    prefix = ""                          # what precedes encoder.layers.0

Nothing is unpickled. A model that is not supported is refused: docs/guides/export.md has the table. If the other system
is installed, both models are compared as in 'transduce export'; certificate.json has the result.
"""

import argparse
import sys

from transduce.cli.arguments import add_overwrite
from transduce.cli.export import add_certificate, comparison_options
from transduce.cli.options import add_choice, add_path
from transduce.cli.output import print_report, warn

SUMMARY = "make a model folder from a transformers checkpoint or a torch.nn.Transformer"
FORMATS = ("huggingface", "torch")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "path", "PATH", "transformers folder, or safetensors file")
    add_choice(parser, "--format", FORMATS, "the format of PATH; default: recognised")
    add_path(parser, "--output", "MODEL", "model folder to write", required=True)
    add_overwrite(parser, "an earlier import")
    add_path(parser, "--description", "FILE", "torch: the TOML file")
    add_path(parser, "--tokenizer", "PATH", "torch: tokenizer.json, or a folder that has it")
    add_certificate(parser)


def run(args: argparse.Namespace) -> int:
    """Imports, and returns the exit code."""
    from transduce.errors import ConfigError
    from transduce.export.imports import find_format, import_huggingface, import_torch

    form = args.format or find_format(args.path)
    if form == "huggingface" and not (args.description is None and args.tokenizer is None):
        raise ConfigError(
            "--description and --tokenizer are for a state dict of torch; a transformers folder needs neither."
        )
    options = comparison_options(args)
    if form == "huggingface":
        certificate = import_huggingface(args.path, args.output, **options)
    else:
        if args.description is None or args.tokenizer is None:
            raise ConfigError(f"{args.path}: a state dict of torch needs --description FILE and --tokenizer PATH.")
        certificate = import_torch(args.path, args.description, args.tokenizer, args.output, **options)
    if certificate is None:
        warn("the other system is not installed: nothing was compared.")
    else:
        print_report(certificate.to_markdown())
    print(f"{args.output}: written. Try it: transduce translate {args.output}", file=sys.stderr)
    return 0
