"""Translates texts and documents over HTTP, for clients of LibreTranslate and DeepL, and has a page for people.

examples:
  transduce serve models/m30k
  curl http://127.0.0.1:5000/translate -d q="A dog runs." -d source=en -d target=de
  transduce serve models/en-de models/de-en --host 0.0.0.0 --port 8080 --quantization int8
  transduce serve --models ~/.local/share/argos-translate/packages
  transduce serve --config serve.toml
  transduce serve --keys keys.toml --add-key weblate --characters-per-minute 60000
  transduce serve models/m30k --keys keys.toml
  transduce serve --usage
  transduce serve models/m30k --state postgresql://transduce@db/transduce

With --models, a folder's models and packages are all served, those of Argos, OPUS-MT and CTranslate2 included: each is
imported once, and loaded when first requested. Where no model translates directly, text goes through English.

Models are chosen by language. Sentences of all requests are translated together, and no answer depends on who else
asks. SIGTERM or Ctrl-C ends the service when all accepted requests are answered, a second one at once. SIGHUP reloads
keys, certificate and models. /health and /ready are for probes, /metrics is for Prometheus, and /api/openapi.json
describes the interface. What the options do not set is in serve.toml: docs/guides/serving.md.
"""

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from transduce.cli.options import THREADS, add_choice, add_number, add_path, add_switch, add_text, option_name, whole
from transduce.cli.output import print_report, say
from transduce.engines.capabilities import ENGINE_NAMES, QUANTIZATIONS
from transduce.engines.interface import SHORTLIST_CHOICES
from transduce.errors import ConfigError
from transduce.reporting.tables import table

if TYPE_CHECKING:
    from transduce.serve.config import ServerConfig

SUMMARY = "answer translation requests over HTTP"
_MODULES = ("httptools", "multipart", "prometheus_client", "py3langid", "starlette", "uvicorn")
_MOST_CHARACTERS = 10**15


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_text(parser, "models", "MODEL", "model folders, one for each pair of languages", nargs="*")
    folder = "folder of models and packages of other systems, all of which are served"
    add_path(parser, "--models", "DIR", folder, dest="folder")
    loaded = "models of --models in memory; 0: no limit; default: 8"
    add_number(parser, "--max-loaded", whole(0), "N", loaded)
    add_path(parser, "--config", "FILE", "serve.toml; options given here win over it")
    add_text(parser, "--host", "NAME", "address to listen at; 0.0.0.0: all; default: 127.0.0.1")
    add_number(parser, "--port", whole(0, 65_535), "N", "0: any that is free; default: 5000")
    url = "address in links to files; default: that of the connection, or of a trusted proxy"
    add_text(parser, "--public-url", "URL", url)
    state = (
        "where glossaries, usage and documents are kept: an SQLite file, postgresql://…, or memory; default: "
        "~/.local/state/transduce/serve.db"
    )
    add_text(parser, "--state", "URL", state)
    machine = parser.add_argument_group("machine (for all models)")
    add_choice(machine, "--engine", ENGINE_NAMES, "default: auto")
    quantization = "float32 (default), int8, …: faster, less memory"
    add_choice(machine, "--quantization", QUANTIZATIONS, quantization, metavar="TYPE")
    add_number(machine, "--threads", THREADS, "N", "CPU threads of each model")
    add_choice(machine, "--shortlist", SHORTLIST_CHOICES, "default: off")
    draft = "what proposes tokens to greedy search, as in 'transduce translate --draft'"
    add_text(machine, "--draft", "self|blockwise|MODEL", draft)
    keys = parser.add_argument_group("keys")
    add_path(keys, "--keys", "FILE", "each client needs a key of this file")
    add_text(keys, "--add-key", "NAME", "add a new key to the file, print it, and end")
    limit = whole(0, _MOST_CHARACTERS)
    for period in ("minute", "day"):
        add_number(keys, f"--characters-per-{period}", limit, "N", "limit of the new key; 0: none (default)")
    add_switch(keys, "--usage", "print the characters that each key has translated, from --state or --config, and end")
    add_switch(keys, "--json", "with --usage: print JSON")
    add_switch(keys, "--bulk", "requests with the new key wait for those of others")
    add_switch(parser, "--check", "ask whether the service with these options runs, and end: with 0 if it does")
    add_switch(parser, "--quiet", "print warnings and errors only")


def run(args: argparse.Namespace) -> int:
    """Serves until a signal, and returns the exit code."""
    if args.add_key is not None:
        return _add_key(args)
    for name in ("characters_per_minute", "characters_per_day", "bulk"):
        if getattr(args, name):
            raise ConfigError(f"{option_name(name)} is of a new key: give --add-key NAME as well.")
    if args.json and not args.usage:
        raise ConfigError("--json is a form of --usage: give that as well.")
    from transduce.cli.requirements import require

    require("serve", _MODULES)
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.serve.config import read_config
    from transduce.serve.operations.log import service_logs
    from transduce.serve.server import serve

    given = {
        "server": {"host": args.host, "port": args.port, "public_url": args.public_url},
        "keys": {"file": str(args.keys) if args.keys is not None else None},
        "state": {"url": args.state},
        "folder": {"path": str(args.folder) if args.folder is not None else None, "max_loaded": args.max_loaded},
    }
    of_models = {name: getattr(args, name) for name in ("engine", "quantization", "threads", "shortlist", "draft")}
    changes = {section: _given(values) for section, values in given.items()}
    config = read_config(args.config, args.models, changes, _given(of_models), needs_models=not args.usage)
    if args.max_loaded is not None and not config.folder.path:
        raise ConfigError("--max-loaded is of a folder of models: give --models DIR as well.")
    if args.usage:
        return _usage(config.state.url, as_json=args.json)
    if args.check:
        return _check(config.server)
    with service_logs(access_log=config.server.access_log and not args.quiet, quiet=args.quiet):
        serve(config)
    return 0


def _check(server: "ServerConfig") -> int:
    from transduce.serve.aliveness import require_alive
    from transduce.serve.listening import ListenError

    try:
        require_alive(server)
    except ListenError as error:
        say(str(error))
        return 1  # what Docker takes for unhealthy
    return 0


def _usage(url: str, *, as_json: bool) -> int:
    from transduce.serve.state.store import open_store

    today = datetime.now(UTC).strftime("%Y-%m-%d")
    store = open_store(url, must_exist=True)
    try:
        found = store.usage_of_keys(today)
    finally:
        store.close()
    if as_json:
        print(json.dumps({"day": today, "keys": [asdict(each) for each in found]}, indent=2))
        return 0
    counts = [(each.key or "(without a key)", each.today, each.month, each.total, each.since) for each in found]
    rows = [[name, *(f"{number:,}" for number in numbers), since] for name, *numbers, since in counts]
    print_report(table(["characters by key", "today (UTC)", "this month", "in all", "since"], rows))
    return 0


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _add_key(args: argparse.Namespace) -> int:
    from transduce.serve.operations.keys import add_key

    if args.keys is None:
        raise ConfigError("--add-key adds a key to a file: give --keys FILE as well.")
    limits = {"per_minute": args.characters_per_minute or 0, "per_day": args.characters_per_day or 0}
    print(add_key(args.keys, args.add_key, **limits, bulk=args.bulk))
    return 0
