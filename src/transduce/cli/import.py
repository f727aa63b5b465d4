"""Makes a model folder from another system's model, and checks that it gives the same results here.

examples:
  transduce import Helsinki-NLP/opus-mt-en-de --output models/en-de
  transduce import exports/m30k --output models/back
  transduce import translate-en_de-1_0.argosmodel --output models/en-de
  transduce import mine.safetensors --description mine.toml --tokenizer bpe.json --output models/mine
  transduce import --list downloads

The format is recognised from the files at PATH, unless --format names it. Where nothing is at PATH, OWNER/NAME or
OWNER/NAME@REVISION is a model of the Hugging Face Hub: it is taken from the local cache, or downloaded with the extra
'hub'. HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE have the meaning they have for huggingface_hub.

  huggingface   a folder of transformers: OPUS-MT and other Marian models, M2M100, NLLB, Pegasus; safetensors, or
                pytorch_model.bin
  marian        a folder of OPUS-MT as Marian has it: decoder.yml, the .npz that it names, vocab.yml and *.spm
  ctranslate2   a folder with model.bin, its vocabularies, and the SentencePiece model or tokenizer.json of the original
  argos         a package of Argos Translate: .argosmodel, or its unpacked folder
  torch         the state dict of a torch.nn.Transformer as safetensors, and a TOML file that describes it:

    num_heads = 8
    norm_first = false
    source_embedding = "source.weight"   # names in the state dict; all three may be the same
    target_embedding = "target.weight"
    output = "generator.weight"
    output_bias = "generator.bias"       # where there is one
    activation = "relu"                  # or "gelu"
    embedding_scale = "sqrt"             # embeddings are multiplied by the root of d_model; or "none"
    positions = "interleaved"            # or "concatenated", or "learned" with source_positions, target_positions
    prefix = ""                          # what precedes encoder.layers.0

Of a pickle, tensors are read and nothing is run. A model that is not supported is refused: docs/guides/pretrained.md
says what opens. If the other system is installed, both models are compared as in 'transduce export'; certificate.json
has the result.
"""

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_overwrite
from transduce.cli.export import add_certificate, comparison_options
from transduce.cli.options import add_choice, add_path, add_switch, add_text, option_name
from transduce.cli.output import print_report, warn

if TYPE_CHECKING:
    from transduce.export.options import ComparisonOptions

SUMMARY = "make a model folder from a model of transformers, Marian, CTranslate2, Argos or torch"
FORMATS = ("huggingface", "marian", "ctranslate2", "argos", "torch")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    about = "what was downloaded: a folder or a file; or OWNER/NAME of a model on the hub"
    add_path(parser, "path", "PATH", about, nargs="?")
    add_text(
        parser, "--revision", "NAME", "hub: branch, tag or commit; default: main, as it is in the cache", default=""
    )
    add_choice(parser, "--format", FORMATS, "the format of PATH; default: recognised")
    add_path(parser, "--output", "MODEL", "model folder to write")
    add_overwrite(parser, "an earlier import")
    add_path(parser, "--description", "FILE", "torch: the TOML file")
    add_path(parser, "--tokenizer", "PATH", "torch: tokenizer.json, or a folder that has it")
    group = parser.add_argument_group("downloads")
    add_path(group, "--list", "DIR", "print what a folder of downloads holds, and import nothing")
    add_switch(group, "--json", "with --list: print JSON")
    add_certificate(parser)
    add_switch(parser, "--no-compare", "do not run the other system: faster, in less memory, without a certificate")


def run(args: argparse.Namespace) -> int:
    """Imports, or lists downloads, and returns the exit code."""
    from transduce.data.progress import elapsed_time
    from transduce.errors import ConfigError
    from transduce.export.certificate import require_replaceable
    from transduce.export.hub import find_origin
    from transduce.export.imports import DESCRIBED, find_format, import_model, import_torch

    if args.list is not None:
        return _list(args)
    if args.json:
        raise ConfigError("--json is for --list.")
    if args.path is None or args.output is None:
        raise ConfigError("PATH and --output MODEL are needed; --list DIR needs neither.")
    for name in ("source", "reference", "sample", "threshold", "max_difference", "force"):
        if args.no_compare and getattr(args, name) != args.parser.get_default(name):
            raise ConfigError(f"{option_name(name)} is for the comparison: leave it out, or leave out --no-compare.")
    if args.revision and args.path.exists():
        raise ConfigError(f"--revision is for a model of the hub; {args.path} is here.")
    require_replaceable(args.output, is_export=False, overwrite=args.overwrite)  # before a long download
    origin = find_origin(f"{args.path}@{args.revision}" if args.revision else args.path)
    form = args.format or find_format(origin.path)
    options: ComparisonOptions = {**comparison_options(args), "compare": not args.no_compare}
    described = args.description is not None, args.tokenizer is not None
    if form != DESCRIBED and any(described):
        raise ConfigError("--description and --tokenizer are for a state dict of torch; other formats need neither.")
    if form == DESCRIBED and not all(described):
        raise ConfigError(f"{args.path}: a state dict of torch needs --description FILE and --tokenizer PATH.")
    with elapsed_time("importing" if args.no_compare else "importing and comparing", shown=True):
        if form == DESCRIBED:
            certificate = import_torch(origin.path, args.description, args.tokenizer, args.output, **options)
        else:
            certificate = import_model(origin, args.output, form, **options)
    if certificate is None and args.no_compare:
        warn("nothing was compared (--no-compare).")
    elif certificate is None:
        warn("the other system is not installed: nothing was compared.")
    else:
        print_report(certificate.to_markdown())
    print(f"{args.output}: written. Try it: transduce translate {args.output}", file=sys.stderr)
    return 0


def _list(args: argparse.Namespace) -> int:
    """Prints what a folder of downloads holds."""
    from transduce.errors import ConfigError
    from transduce.export.downloads import list_downloads, to_markdown

    if args.path is not None or args.output is not None:
        raise ConfigError("--list DIR imports nothing: leave out PATH and --output.")
    downloads = list_downloads(args.list)
    if args.json:
        print(json.dumps([dataclasses.asdict(each) for each in downloads], ensure_ascii=False, indent=2))
    else:
        print_report(to_markdown(downloads))
    return 0
