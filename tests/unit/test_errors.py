"""The command that a message prints where an extra is missing, and errors of libraries as ours."""

import json
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest

from transduce.errors import BundleError, TokenizerError, install_command, naming, panics_as, suggestion


def installed_from(monkeypatch: pytest.MonkeyPatch, folder: Path, origin: dict[str, Any] | None) -> None:
    """Pretends that pip has installed the package from an origin (PEP 610); None: nothing is noted."""
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    monkeypatch.setattr(metadata, "distribution", lambda name: metadata.PathDistribution(folder))


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (None, "pip install '.[serve,ray]'"),
        ({"url": "file:///a/b", "dir_info": {}}, "pip install 'transduce[serve,ray] @ file:///a/b'"),
        ({"url": "file:///a/b%20c", "dir_info": {"editable": True}}, "pip install --editable '/a/b c[serve,ray]'"),
        ({"url": "file:///a/t.whl", "archive_info": {}}, "pip install 'transduce[serve,ray] @ file:///a/t.whl'"),
        (
            {"url": "https://x.org/t", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "pip install 'transduce[serve,ray] @ git+https://x.org/t@12ab'",
        ),
    ],
)
def test_the_command_names_where_the_package_came_from(
    origin: dict[str, Any] | None, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(monkeypatch, tmp_path, origin)
    assert install_command("serve", "ray") == wanted


def test_pip_understands_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up package of the same name, in a folder with a space; nothing is installed."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    project = '[project]\nname = "transduce"\nversion = "9"\noptional-dependencies.serve = []\n'
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    for editable in (False, True):
        installed_from(monkeypatch, tmp_path, {"url": folder.as_uri(), "dir_info": {"editable": editable}})
        options = ["--dry-run", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
        command = [sys.executable, "-m", *shlex.split(install_command("serve")), *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_an_error_of_a_library_in_rust_becomes_one_of_ours() -> None:
    """A panic is no Exception."""

    class Panic(BaseException):
        pass

    for raised in (Panic("at line 3"), ValueError("at line 3")):
        with pytest.raises(BundleError) as found, panics_as(BundleError, "damaged ({error})"):
            raise raised
        assert str(found.value) == "damaged (at line 3)"
    with pytest.raises(KeyboardInterrupt), panics_as(BundleError, "damaged ({error})"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(("message", "shown"), [("no weight", "a/b: no weight"), ("a/b/c: damaged", "a/b/c: damaged")])
def test_an_error_names_the_path_once(message: str, shown: str) -> None:
    with pytest.raises(TokenizerError) as found, naming(Path("a/b")):
        raise TokenizerError(message)
    assert str(found.value) == shown


def test_the_nearest_name_is_suggested_and_none_for_what_is_no_name() -> None:
    assert suggestion("torhc", ["auto", "torch"]) == " Did you mean 'torch'?"
    assert suggestion(cast(Any, None), ["auto", "torch"]) == suggestion(cast(Any, 8), ["int8"]) == ""
