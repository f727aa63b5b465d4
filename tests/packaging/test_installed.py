"""What is built from the checkout is whole: installed into a clean environment, it works without the checkout."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

_REPOSITORY = Path(__file__).resolve().parents[2]
_CONSTRAINTS = _REPOSITORY / "constraints.txt"
_FIXTURES = _REPOSITORY / "tests" / "fixtures" / "0.1.0"
_DATA = ("py.typed", "inspection/page/explorer.html", "inspection/page/start.js")

# Runs at the start of every Python of a clean environment: whoever opens or lists a file of the checkout is stopped.
_GUARD = """
import os, sys
def refuse(event, given):
    if event in ("open", "os.listdir", "os.scandir") and given and isinstance(given[0], (str, bytes, os.PathLike)):
        if os.path.abspath(os.fsdecode(given[0])).startswith({checkout!r}):
            raise RuntimeError(f"{{given[0]}} is a file of the checkout")
sys.addaudithook(refuse)
"""


def run(*command: str | Path, folder: Path, **changes: str) -> str:
    """Runs a command outside the checkout, with none of our variables, and returns what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment | changes, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(kind: str, source: Path, output: Path) -> Path:
    """Builds the "sdist" or the "wheel" of a source folder by the build backend that pyproject.toml names."""
    output.mkdir()
    code = f"from setuptools.build_meta import build_{kind} as build; build({str(output)!r})"
    run(sys.executable, "-c", code, folder=source)
    [built] = output.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")  # setuptools writes beside what it builds
    source = folder / "checkout"
    shutil.copytree(_REPOSITORY / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_REPOSITORY / name, source / name)
    return build("sdist", source, folder / "dist")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheel that is built from the source distribution alone."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [source] = folder.iterdir()
    return build("wheel", source, folder / "dist")


def lend(name: str, packages: Path) -> None:
    """Gives an environment a package of this one, file by file: it is as if pip had put it there, and takes no time."""
    package = distribution(name)
    assert package.files is not None
    for file in package.files:
        if ".." not in file.parts:  # no commands: their first line names this environment
            copy = packages / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            link(file.locate(), copy)


def link(file: str | os.PathLike[str], copy: str | os.PathLike[str]) -> None:
    try:
        os.link(file, copy)
    except OSError:  # the folder of temporary files is on another disk
        shutil.copy2(file, copy)


def installed(
    folder: Path, wheel: Path, extra: str = "", lent: tuple[str, ...] = (), before: Path | None = None
) -> Path:
    """Returns the commands of a new environment that has the wheel, with the versions that the tests run with.

    `lent` are packages that are there before the wheel is; what these need themselves pip has to find. So are those of
    the environment `before`, without our own.
    """
    venv.create(folder)
    [packages] = folder.glob("lib/python*/site-packages")
    if before is not None:
        [there] = before.glob("lib/python*/site-packages")
        ours = shutil.ignore_patterns("transduce*", "guard.*")
        shutil.copytree(there, packages, ignore=ours, copy_function=link, dirs_exist_ok=True)
    for name in ("pip", *lent) if before is None else lent:
        lend(name, packages)
    # Modules are compiled where they are imported: most never are.
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    pip += shlex.split(os.environ.get("PIP_OPTIONS", ""))
    run(*pip, "--constraint", _CONSTRAINTS, f"{wheel}{extra}", folder=folder)
    (packages / "guard.py").write_text(_GUARD.format(checkout=f"{_REPOSITORY}{os.sep}"), encoding="utf-8")
    (packages / "guard.pth").write_text("import guard\n", encoding="utf-8")  # site imports it at every start
    return folder / "bin"


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("base") / "environment", wheel)


@pytest.fixture(scope="module")
def train(base: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of `[train]`: torch is there first, as `make` has it. That it can be installed `make` shows.

    What the base install has brought is there, too, as where a user installs more.
    """
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[train]'")
    return installed(tmp_path_factory.mktemp("train") / "environment", wheel, "[train]", ("torch",), base.parent)


@pytest.fixture
def expected() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((_FIXTURES / "expected.json").read_text(encoding="utf-8"))["model"]
    return values


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    source = _REPOSITORY / "src"
    wanted = {
        str(path.relative_to(source))
        for path in (source / "transduce").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert {f"transduce/{name}" for name in _DATA} <= wanted


def test_the_base_install_translates(base: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    model = shutil.copytree(_FIXTURES / "model", tmp_path / "model")
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in expected["sources"]), encoding="utf-8")
    command = [base / "transduce", "translate", model, "--engine", "ctranslate2"]
    run(*command, "--source", "in", "--output", "out", folder=tmp_path)
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == expected["translations"]


def test_the_data_of_the_package_is_installed(base: Path, tmp_path: Path) -> None:
    code = "import transduce; from importlib.resources import files; print(files(transduce))"
    package = Path(run(base / "python", "-c", code, folder=tmp_path).strip())
    assert package.is_relative_to(base.parent)
    assert all((package / name).is_file() for name in _DATA)


def test_the_base_install_has_no_torch(base: Path, tmp_path: Path) -> None:
    code = "import importlib.util as i; print([i.find_spec(n) for n in ('torch', 'pyarrow', 'tensorboard')])"
    assert run(base / "python", "-c", code, folder=tmp_path).strip() == "[None, None, None]"


def test_the_base_install_checks_a_corpus_and_names_a_command_that_installs_more(base: Path, tmp_path: Path) -> None:
    shutil.copytree(_FIXTURES / "corpus", tmp_path / "corpus")
    shutil.copy(_FIXTURES / "recipe.toml", tmp_path)
    assert "training pairs" in run(base / "transduce", "prepare", "recipe.toml", "--check-only", folder=tmp_path)
    assert "pairs kept" in run(base / "transduce", "filter", "recipe.toml", "--dry-run", folder=tmp_path)
    command = f"{shlex.quote(str(base / 'transduce'))} train recipe.toml --output run 2>&1 || test $? = 6"
    said = run("sh", "-c", command, folder=tmp_path)
    pip = shlex.split(said.strip().partition("This command needs: ")[2])
    run(base / "python", "-m", *pip, "--dry-run", "--no-deps", "--quiet", folder=tmp_path)


def test_files_of_the_checkout_are_out_of_reach(base: Path, tmp_path: Path) -> None:
    code = f"open({str(_REPOSITORY / 'README.md')!r})"
    with pytest.raises(AssertionError, match="is a file of the checkout"):
        run(base / "python", "-c", code, folder=tmp_path)


def test_the_train_install_trains_and_translates(train: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(_FIXTURES / "corpus", tmp_path / "corpus")
    shutil.copy(_FIXTURES / "recipe.toml", tmp_path)
    (tmp_path / "in").write_text(f"{expected['sources'][0]}\n", encoding="utf-8")
    commands = (
        "train recipe.toml --output run --quiet --set train.max_steps=5",
        "translate run/model --engine torch --source in --output out",
    )
    code = "import sys; from transduce.cli.main import main; sys.exit(any(main(each.split()) for each in sys.argv[1:]))"
    run(train / "python", "-c", code, *commands, folder=tmp_path, OMP_NUM_THREADS="1")  # both load PyTorch once
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 1
