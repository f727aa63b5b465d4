"""The base install has no torch: what it offers imports, shows help and scores without it, and quickly."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from made_models import made_bundle
from transduce import Translator
from transduce.cli.augment import SUBCOMMANDS as AUGMENT
from transduce.cli.main import COMMANDS
from transduce.cli.parse import SUBCOMMANDS
from transduce.errors import install_command
from transduce.experiments.paper.catalogue import EXPERIMENTS

_SOURCE = Path(__file__).resolve().parents[2] / "src" / "transduce"

# Makes Python blind to the packages ABSENT, as if they were not installed.
_BLIND = """
import sys

class Blind:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Blind, sys.meta_path)
"""


def run_python(code: str, *, absent: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh interpreter where the packages `absent` cannot be imported."""
    program = f"ABSENT = {absent!r}\n{_BLIND}\n{code}"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


_HELPED = (
    "",
    *COMMANDS,
    *(f"augment {name}" for name in AUGMENT),
    *(f"parse {name}" for name in SUBCOMMANDS),
    *(f"paper {name}" for name in EXPERIMENTS),
)


class Help(NamedTuple):
    """What `transduce … --help` did."""

    code: int
    printed: str
    loaded: list[str]  # the names of all packages that it, or one before it, has loaded


@pytest.fixture(scope="module")
def helps() -> dict[str, Help]:
    """Returns what each command did, in one process: all of them load the whole command line."""
    code = f"""
import contextlib, io, json
from transduce.cli.main import main
found = []
for command in {_HELPED!r}:
    end = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            main([*command.split(), "--help"])
        except SystemExit as ended:
            end = ended.code
    found.append((end, printed.getvalue(), sorted({{name.partition(".")[0] for name in sys.modules}})))
print(json.dumps(found))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    return {command: Help(*each) for command, each in zip(_HELPED, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize("command", _HELPED)
def test_help_has_an_example_and_loads_nothing_heavy(command: str, helps: dict[str, Help]) -> None:
    code, printed, loaded = helps[command]
    assert code == 0
    assert "transduce" in loaded
    assert not set(loaded) & {"torch", "pyarrow", "tensorboard", "babel", "matplotlib"}
    assert "examples:" in printed
    assert re.search(rf"^  .*\btransduce {command}", printed.partition("examples:")[2], re.MULTILINE)
    assert max(map(len, printed.splitlines())) <= 130


def test_base_modules_import_without_any_extra() -> None:
    packages = ["config", "text", "evaluation", "inspection", "treebank"]
    packages += ["translation.pipeline", "translation.streams"]
    names = ["errors", "files", "bundle", "translation.translator", "parser", "decoding.scores"]
    names += ["data.readers", "data.treebank_reader", "engines.interface", "engines.loading", "engines.capabilities"]
    names += ["engines.ctranslate2", "cli.main"]
    for package in packages:
        folder = _SOURCE / package.replace(".", "/")
        names += [f"{package}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"]
    code = "\n".join(f"import transduce.{name}" for name in names)
    done = run_python(code, absent=("torch", "pyarrow", "tensorboard", "babel", "num2words", "matplotlib", "ray"))
    assert done.returncode == 0, done.stderr


_NEED_EXTRAS = [
    ("train recipes/none.toml --output none", "torch", "train"),
    ("average none --output none", "torch", "train"),
    ("parse train recipes/none.toml --output none", "torch", "train"),
    ("verify none", "torch", "train"),
    ("paper table1 --output none", "torch", "train"),
    ("export none --format ctranslate2 --output none", "torch", "train"),
    ("export none --format huggingface --output none", "transformers", "huggingface"),
    ("export none --format onnx --output none", "onnxruntime", "onnx"),
    ("paper table1 --output none", "matplotlib", "figures"),
    ("translate none --ray local", "ray", "ray"),
]


@pytest.mark.parametrize("absent", dict.fromkeys(package for _, package, _ in _NEED_EXTRAS))
def test_a_command_that_needs_an_extra_names_it(absent: str) -> None:
    """Those that need the same one are run in one process."""
    needed = {command: extra for command, package, extra in _NEED_EXTRAS if package == absent}
    code = f"""
import contextlib, io, json
from transduce.cli.main import main
found = {{}}
for command in {[*needed]!r}:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        found[command] = main(command.split()), said.getvalue()
print(json.dumps(found))
"""
    done = run_python(code, absent=(absent,))
    assert done.returncode == 0, done.stderr
    for command, (ended, said) in json.loads(done.stdout).items():
        assert ended == 6, (command, said)
        assert install_command(needed[command]) in said
        assert "Traceback" not in said


@pytest.mark.parametrize("options", [[], ["--quantization", "int8"]])
def test_translate_runs_without_torch_and_says_with_what(tmp_path: Path, options: list[str]) -> None:
    model = made_bundle(tmp_path / "model").path
    (tmp_path / "source").write_text("A dog runs.\n\nTwo dogs run.\n", encoding="utf-8")
    arguments = ["translate", str(model), "--source", str(tmp_path / "source"), "--device", "cpu", *options]
    code = f"from transduce.cli.main import main\nsys.exit(main({arguments!r}))"
    done = run_python(code, absent=("torch", "pyarrow", "tensorboard", "babel", "num2words", "matplotlib"))
    assert done.returncode == 0, done.stderr
    quantization = options[-1] if options else "float32"
    expected = Translator.load(model, engine="ctranslate2", quantization=quantization, device="cpu")
    assert done.stdout == "".join(line + "\n" for line in expected.translate(["A dog runs.", "", "Two dogs run."]))
    assert f"transduce: engine: ctranslate2 on cpu, {quantization} (PyTorch is not installed)\n" in done.stderr


def test_converting_and_translating_load_no_torch_that_is_there(tmp_path: Path) -> None:
    """Where torch is installed it must not cost its seconds and its memory."""
    model = made_bundle(tmp_path / "model").path
    code = f"""
from transduce import Translator
translator = Translator.load({str(model)!r}, engine="ctranslate2", device="cpu")
translator.translate(["A dog runs."])
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "ctranslate2" in done.stdout.split()
    assert not set(done.stdout.split()) & {"torch", "pyarrow", "transformers"}


def test_alignments_confidence_markup_alternatives_and_terms_need_no_torch(tmp_path: Path) -> None:
    model = made_bundle(tmp_path / "model", ending=2.0).path
    code = f"""
from transduce import Translator
from transduce.translation.pipeline import TextOptions
translator = Translator.load({str(model)!r}, device="cpu")
options = TextOptions(markup="html", confidence=True, alignment=True)
[[best]] = translator.translate_n_best(["A <b>dog</b> runs."], 1, text_options=options)
assert best.text.count("<b>") == best.text.count("</b>") == 1, best
assert best.alignment and best.sentences and best.words and 0 < best.confidence <= 1, best
assert translator.alternatives("A dog runs.", "Two ", 3)
[forced] = translator.translate(["A dog runs."], required=[["grass"]])
assert "grass" in forced.lower(), forced
assert "torch" not in sys.modules
"""
    done = run_python(code, absent=("torch", "pyarrow", "tensorboard", "babel", "num2words", "matplotlib"))
    assert done.returncode == 0, done.stderr


def test_evaluate_runs_without_torch(tmp_path: Path) -> None:
    for name in ("hypothesis", "reference"):
        (tmp_path / name).write_text(f"One dog runs.\nTwo dogs {name}.\n", encoding="utf-8")
    files = ["--hypothesis", str(tmp_path / "hypothesis"), "--reference", str(tmp_path / "reference")]
    code = f"from transduce.cli.main import main\nsys.exit(main({['evaluate', *files]!r}))"
    done = run_python(code, absent=("torch", "pyarrow"))
    assert done.returncode == 0, done.stderr
    assert "chrF2" in done.stdout


def test_perplexity_is_measured_without_torch(tmp_path: Path) -> None:
    model = made_bundle(tmp_path / "model").path
    for side in ("source", "reference"):
        (tmp_path / side).write_text("One dog runs.\nTwo dogs run.\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "reference")]
    code = f"from transduce.cli.main import main\nsys.exit(main({['evaluate', '--model', str(model), *files]!r}))"
    done = run_python(code, absent=("torch", "pyarrow"))
    assert done.returncode == 0, done.stderr
    assert re.match(r"perplexity \d+\.\d{3} per subword", done.stdout)
    assert "engine: ctranslate2" in done.stderr


@pytest.mark.parametrize("subject", ["run", "prepared", "model", "recipe.toml"])
def test_info_runs_without_torch(subject: str) -> None:
    path = Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0" / subject
    code = f"from transduce.cli.main import main\nsys.exit(main({['info', str(path)]!r}))"
    done = run_python(code, absent=("torch", "pyarrow"))
    assert done.returncode == 0, done.stderr
    assert ("| steps | 280 of 280 (100%) |" in done.stdout) == (subject == "run")


def test_a_corpus_is_checked_and_filtered_without_any_extra(tmp_path: Path) -> None:
    for language, word in (("en", "dog"), ("de", "Hund")):
        (tmp_path / f"a.{language}").write_text("".join(f"{word} {i}\n" for i in range(40)), encoding="utf-8")
    pair = [str(tmp_path / name) for name in ("a.en", "a.de")]
    absent = ("torch", "pyarrow", "tensorboard", "babel", "num2words", "matplotlib", "ray")
    for command, said in (
        (["prepare", "--train", *pair, "--check-only"], "40 kept of 40"),
        (["filter", "--train", *pair, "--dry-run"], " kept of 40 ("),
    ):
        done = run_python(f"from transduce.cli.main import main\nsys.exit(main({command!r}))", absent=absent)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    command = ["prepare", "--train", *pair, "--output", str(tmp_path / "out")]
    done = run_python(f"from transduce.cli.main import main\nsys.exit(main({command!r}))", absent=("pyarrow",))
    assert done.returncode == 6
    assert install_command("train") in done.stderr


def test_tests_that_need_torch_are_skipped_where_it_is_not_installed(tmp_path: Path) -> None:
    """And no others: a test that fails for another reason fails."""
    (tmp_path / "test_some.py").write_text(
        "def test_hidden():\n"
        "    try:\n        import torch\n    except ImportError as error:\n        raise KeyError from error\n"
        "def test_command():\n"
        "    from transduce.cli.main import main\n"
        "    assert main(['average', 'a', '--output', 'b']) == 0\n"
        "def test_wrong():\n    import torches\n"
        "def test_right(): pass\n"
    )
    (tmp_path / "test_file.py").write_text("import torch\n")
    tests = str(Path(__file__).resolve().parents[1])
    options = ["-p", "conftest", "-c", "/dev/null", "-rs", str(tmp_path)]
    code = f"import pytest\nsys.path.insert(0, {tests!r})\nsys.exit(pytest.main({options!r}))"
    done = run_python(code, absent=("torch",))
    assert "1 failed, 1 passed, 3 skipped" in done.stdout, done.stdout
    for count, name in ((2, "some"), (1, "file")):
        assert re.search(rf"SKIPPED \[{count}\] .*test_{name}.py:0: PyTorch is not installed: pip", done.stdout)
