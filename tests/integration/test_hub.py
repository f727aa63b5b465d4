"""Models of the Hugging Face Hub: which files are fetched, from where, and what each failure says."""

import hashlib
import importlib.util
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import hub_server
from hub_server import NAME, HubServer, environment, fetch, git_digest, running_hub
from opus_checkpoint import make_opus
from transduce.cli.main import main
from warm_start import warm_interpreter

pytest.importorskip("huggingface_hub")

FILES = {
    "README.md": b"license: cc-by-4.0",
    "config.json": b'{"model_type": "marian"}',
    "source.spm": b"pieces of the source",
    "vocab.json": b'{"</s>": 0}',
    "model.safetensors": b"weights" * 1000,
}
CHUNK = 10 << 20  # what the library has read when a connection breaks is kept in chunks of this size


@pytest.fixture(scope="module", autouse=True)
def python() -> Iterator[Path]:
    """Starts what fetches and imports with all loaded but the hub's library, which reads the environment: 60 starts.

    What that library imports is loaded, too.
    """
    if importlib.util.find_spec("torch") is None:
        yield hub_server.PYTHON
        return
    modules = [
        "transduce.export.imports",
        *filter(importlib.util.find_spec, ("asyncio", "filelock", "httpx2", "tqdm.auto")),
    ]
    with warm_interpreter(modules=modules) as command, pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_server, "PYTHON", command)
        yield command


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with running_hub() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def sums(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def blob(home: Path, content: bytes) -> Path:
    return home / "hub" / "models--owner--opus-mt-en-de" / "blobs" / hashlib.sha256(content).hexdigest()


def test_a_model_is_fetched_from_one_commit_then_taken_from_the_cache(hub: HubServer, home: Path) -> None:
    others = {"tf_model.h5": b"t", "pytorch_model.bin": b"p", "../evil.spm": b"e", "onnx/model.onnx": b"o"}
    commit = hub.push(FILES | others)
    found = fetch(NAME, hub.address, home)
    folder = home / "hub" / "models--owner--opus-mt-en-de" / "snapshots" / commit
    assert found.pop("said") == (
        f"transduce: {NAME}: downloading 5 files, 0.0 MB, from {hub.address} to {home / 'hub'}\n"
    )
    assert found == {
        "path": str(folder),
        "name": "opus-mt-en-de",
        "repository": NAME,
        "revision": commit,
        "url": f"{hub.address}/{NAME}/tree/{commit}",
        "sha256": sums(FILES),
    }
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == FILES
    assert not [*home.rglob("*evil*")]
    requests = hub.new_requests()
    assert requests[0] == f"GET /api/models/{NAME}"
    assert [each for each in requests if each.startswith("GET /lfs/")] == [
        f"GET /lfs/{commit}/source.spm",
        f"GET /lfs/{commit}/model.safetensors",
    ]
    assert all(f"/resolve/{commit}/" in each or "/lfs/" in each for each in requests[1:-1])
    assert requests[-1] == f"HEAD /{NAME}/resolve/main/config.json"  # the cache notes the branch's commit

    again = fetch(NAME, hub.address, home)
    assert again.pop("said") == f"transduce: {NAME}: from the cache, commit {commit}\n"
    assert again == found
    by_commit = fetch(f"{NAME}@{commit}", hub.address, home)
    assert by_commit["revision"] == commit
    assert hub.new_requests() == []
    assert fetch(NAME, "http://127.0.0.1:1", home)["sha256"] == sums(FILES)
    assert fetch(f"{NAME}@main", hub.address, home, HF_HUB_OFFLINE="1")["said"] == (
        f"transduce: {NAME}: the hub did not answer: from the cache, commit {commit}\n"
    )
    assert hub.new_requests() == []


def test_a_branch_that_moved_is_seen_where_it_is_named(hub: HubServer, home: Path) -> None:
    before = hub.push(FILES)
    fetch(NAME, hub.address, home)
    changed = FILES | {"model.safetensors": b"better" * 1000}
    after = hub.push(changed)
    hub.new_requests()
    assert fetch(NAME, hub.address, home)["revision"] == before
    assert hub.new_requests() == []
    found = fetch(f"{NAME}@main", hub.address, home)
    assert (found["revision"], found["sha256"]) == (after, sums(changed))
    assert [each for each in hub.new_requests() if each.startswith("GET /lfs/")] == [
        f"GET /lfs/{after}/model.safetensors"
    ]
    assert fetch(NAME, hub.address, home)["revision"] == after
    assert fetch(f"{NAME}@{before}", hub.address, home)["sha256"] == sums(FILES)
    assert hub.new_requests() == []


def test_a_cut_connection_is_resumed(hub: HubServer, home: Path) -> None:
    weights = bytes(range(256)) * (CHUNK // 128)  # two chunks
    files = FILES | {"model.safetensors": weights + b"end"}
    hub.push(files)
    hub.cuts = [10**9, CHUNK + 5]  # of the pieces; of the weights
    found = fetch(NAME, hub.address, home)
    assert found["sha256"] == sums(files)
    assert hub.ranges == ["", "", f"bytes={CHUNK}-"]
    assert hub.sent["model.safetensors"] == len(weights) + len(b"end") + 5


def test_what_was_complete_is_kept_for_the_next_run(hub: HubServer, home: Path) -> None:
    hub.push(FILES | {"source.spm": b"s" * 100})
    hub.replaced["model.safetensors"] = b"less"
    failed = fetch(NAME, hub.address, home)
    assert failed["error"] == "DownloadError"
    assert "\n" not in failed["message"]
    assert "Consistency check failed" in failed["message"]
    hub.replaced.clear()
    hub.new_requests()
    assert fetch(NAME, hub.address, home)["said"].startswith(f"transduce: {NAME}: downloading 1 files")
    assert [each.rpartition("/")[2] for each in hub.new_requests() if each.startswith("GET /lfs")] == [
        "model.safetensors"
    ]


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.json"])
def test_a_damaged_download_is_not_kept(hub: HubServer, home: Path, name: str) -> None:
    hub.push(FILES)
    hub.replaced[name] = FILES[name][:-1] + b"?"
    failed = fetch(NAME, hub.address, home)
    assert failed["error"] == "DownloadError"
    assert failed["message"] == (
        f"{NAME}: {name} is damaged: its checksum is not that of the hub. It was removed from the cache; run the "
        "command again."
    )
    assert not [each for each in home.rglob("*") if each.is_file() and each.read_bytes() == hub.replaced[name]]
    hub.replaced.clear()
    assert fetch(NAME, hub.address, home)["sha256"] == sums(FILES)


def test_a_damaged_cache_is_found_without_a_request(hub: HubServer, home: Path) -> None:
    hub.push(FILES)
    fetch(NAME, hub.address, home)
    weights = blob(home, FILES["model.safetensors"])
    weights.write_bytes(b"?" * weights.stat().st_size)
    hub.new_requests()
    assert "model.safetensors is damaged" in fetch(NAME, hub.address, home)["message"]
    assert hub.new_requests() == []
    assert fetch(NAME, hub.address, home)["sha256"] == sums(FILES)


def test_a_small_file_of_the_cache_is_checked_too_and_one_without_content_fetched_again(
    hub: HubServer, home: Path
) -> None:
    hub.push(FILES)
    vocabulary = Path(fetch(NAME, hub.address, home)["path"], "vocab.json").resolve()
    vocabulary.write_bytes(b"?" * vocabulary.stat().st_size)
    assert "vocab.json is damaged" in fetch(NAME, hub.address, home)["message"]
    assert fetch(NAME, hub.address, home)["sha256"] == sums(FILES)
    blob(home, FILES["model.safetensors"]).unlink()
    assert fetch(NAME, hub.address, home)["sha256"] == sums(FILES)


def test_a_cache_of_another_program_is_completed(hub: HubServer, home: Path) -> None:
    """`transformers` fetches no card, which has the licence."""
    commit = hub.push({name: content for name, content in FILES.items() if name != "README.md"})
    fetch(NAME, hub.address, home)
    del hub.commits[commit]
    hub.commits[commit] = FILES  # the same commit, now with its card
    hub.new_requests()
    hub.refusal = (500, {})
    assert fetch(NAME, hub.address, home)["said"] == (
        f"transduce: {NAME}: the hub did not answer: from the cache, commit {commit}, without the README.md that has "
        "its licence\n"
    )
    hub.refusal = None
    assert fetch(NAME, hub.address, home)["sha256"] == sums(FILES)


@pytest.mark.parametrize(
    "lost", [["model-00002-of-00002.safetensors"], ["source.spm", "vocab.json"]], ids=["a shard", "the vocabulary"]
)
def test_what_the_cache_lacks_is_fetched(hub: HubServer, home: Path, lost: list[str]) -> None:
    files = {name: content for name, content in FILES.items() if name != "model.safetensors"}
    files |= {"model.safetensors.index.json": b"{}", "model-00001-of-00002.safetensors": b"1"}
    files["model-00002-of-00002.safetensors"] = b"2"
    hub.push(files)
    folder = Path(fetch(NAME, hub.address, home)["path"])
    for name in lost:
        (folder / name).unlink()
    assert "not complete in" in fetch(NAME, hub.address, home, HF_HUB_OFFLINE="1")["message"]
    hub.new_requests()
    assert fetch(NAME, hub.address, home)["sha256"] == sums(files)
    assert [each for each in hub.new_requests() if "/lfs/" in each] == []  # the content is still in the cache


REFUSALS: dict[str, tuple[int, dict[str, str], str]] = {
    "unknown": (401, {"X-Error-Code": "RepoNotFound"}, "has no model of this name. Check the spelling"),
    "not found": (404, {}, "has no model of this name. Check the spelling"),
    "gated": (403, {"X-Error-Code": "GatedRepo"}, "gated. Accept its terms at"),
    "no right": (403, {}, "refuses access (403). Set HF_TOKEN to a token that may read"),
    "wrong token": (
        401,
        {"X-Error-Message": "Invalid credentials in Authorization header"},
        "refuses access (401). Set HF_TOKEN",
    ),
    "failure": (500, {}, "answered 500. Try again later"),
}


@pytest.mark.parametrize(("status", "headers", "said"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_what_to_do(hub: HubServer, home: Path, status: int, headers: dict[str, str], said: str) -> None:
    hub.push(FILES)
    hub.refusal = (status, headers)
    failed = fetch(NAME, hub.address, home)
    assert failed["error"] == "DownloadError"
    assert said in failed["message"]
    assert failed["message"].startswith(f"{NAME}: ")
    assert "\n" not in failed["message"]


def test_an_unknown_revision_is_named(hub: HubServer, home: Path) -> None:
    hub.push(FILES)
    failed = fetch(f"{NAME}@v9", hub.address, home)
    assert failed["message"] == (f"{NAME}: has no revision 'v9'. {hub.address}/{NAME}/tree/main shows those it has.")


@pytest.mark.parametrize(
    ("endpoint", "more", "said"),
    [
        ("http://127.0.0.1:1", {}, "and http://127.0.0.1:1 could not be read: "),
        ("http://127.0.0.1:1", {"HF_HUB_OFFLINE": "1"}, "and HF_HUB_OFFLINE forbids requests."),
    ],
    ids=["no network", "offline"],
)
def test_without_network_the_cache_is_named(home: Path, endpoint: str, more: dict[str, str], said: str) -> None:
    failed = fetch(NAME, endpoint, home, **more)
    assert failed["error"] == "DownloadError"
    assert f"{NAME}: no such file or folder, not complete in {home / 'hub'}, {said}" in failed["message"]
    assert "\n" not in failed["message"]


def test_a_silent_server_is_left(hub: HubServer, home: Path) -> None:
    hub.silent = True
    failed = fetch(NAME, hub.address, home, HF_HUB_ETAG_TIMEOUT="1")
    assert f"{hub.address} could not be read: " in failed["message"]
    assert len(hub.new_requests()) == 1


def test_the_token_goes_to_the_hub_alone(hub: HubServer, home: Path) -> None:
    hub.push(FILES)
    fetch(NAME, hub.address, home, HF_TOKEN="hf_secret")
    assert hub.tokens == {"127.0.0.1": {"Bearer hf_secret"}, "localhost": {""}}


def test_a_disk_without_space_is_seen_first(hub: HubServer, home: Path) -> None:
    hub.push(FILES)
    hub.sizes["model.safetensors"] = 10**18
    failed = fetch(NAME, hub.address, home)
    assert failed["message"].startswith(f"{NAME}: 1,000,000,000,000.0 MB to download, but {home / 'hub'} has ")
    assert hub.new_requests() == [f"GET /api/models/{NAME}"]


@pytest.mark.parametrize("files", [{}, {"config.json": b"{}"}, {"model.safetensors": b"w", "vocab.json": b"{}"}])
def test_a_repository_without_a_model_is_named(hub: HubServer, home: Path, files: dict[str, bytes]) -> None:
    hub.push(files)
    message = fetch(NAME, hub.address, home)["message"]
    assert message.startswith(f"{NAME}: has no config.json with model.safetensors, pytorch_model.bin or model.bin")
    assert message.endswith(f"It has {', '.join(sorted(files)) or 'no files'}.")


def test_the_servers_digests_are_those_of_git() -> None:
    assert git_digest(b"test content\n") == "d670460b4b4aece5915caf5c68d12f560a9fe3e4"  # the book "Pro Git", 10.2


def run_import(hub: HubServer, home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [hub_server.PYTHON, "-m", "transduce", "import", *arguments],
        env=environment(hub.address, home, **more),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_pickle", [False, True], ids=["safetensors", "pickle"])
def test_the_command_imports_what_the_hub_has(
    hub: HubServer, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_pickle: bool
) -> None:
    pytest.importorskip("transformers")
    folder = make_opus(tmp_path / "downloaded", is_pickle=is_pickle)
    (folder / "README.md").write_text("license: cc-by-4.0", encoding="utf-8")
    files = {each.name: each.read_bytes() for each in folder.iterdir()}
    commit = hub.push(files | {"tf_model.h5": b"never read", "optimizer.pt": b"never read"})
    done = run_import(hub, home, NAME, "--revision", "main", "--output", str(tmp_path / "model"), "--sample", "3")
    assert done.returncode == 0, done.stderr
    requests = hub.new_requests()
    # One list; of each file its headers and its content; at last the branch.
    assert requests[0] == f"GET /api/models/{NAME}/revision/main"
    assert {each.rpartition("/")[2] for each in requests[1:]} == set(files)
    assert len(requests) == 1 + 2 * len(files) + 1
    sums_of_files = sums(files)
    url = f"{hub.address}/{NAME}/tree/{commit}"
    metrics = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert metrics["imported_from"] == {"repository": NAME, "revision": commit, "url": url, "sha256": sums_of_files}
    certificate = json.loads((tmp_path / "model" / "certificate.json").read_text())
    assert certificate["original"]["sha256"] == sums_of_files
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.startswith("# opus-mt-en-de: ")
    assert f"| imported from | [{NAME}]({url}), revision `{commit}` |" in card
    assert main(["info", str(tmp_path / "model")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert f"  imported_from: repository {NAME}, revision {commit}, url {url}" in shown  # without checksums

    if is_pickle:
        return  # what follows does not depend on the form of the weights
    for output, origin in (("offline", NAME), ("local", str(folder))):
        arguments = [origin, "--output", str(tmp_path / output), "--no-compare"]
        done = run_import(hub, home, *arguments, HF_HUB_OFFLINE="1")
        assert done.returncode == 0, done.stderr
    assert hub.new_requests() == []
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("model", "offline", "local")]
    assert weights[0] == weights[1] == weights[2]


def test_the_command_shows_one_line_and_writes_nothing(hub: HubServer, home: Path, tmp_path: Path) -> None:
    done = run_import(hub, home, "owner/unknown", "--output", str(tmp_path / "model"))
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == (
        f"transduce: error: owner/unknown: no such file or folder here, and {hub.address} has no model of this name. "
        "Check the spelling; for a private one, set HF_TOKEN.\n"
    )
    assert not (tmp_path / "model").exists()


def test_a_cache_that_cannot_be_read_is_named(hub: HubServer, home: Path, tmp_path: Path) -> None:
    hub.push(FILES)
    home.write_text("a file in place of the folder", encoding="utf-8")
    done = run_import(hub, home, NAME, "--output", str(tmp_path / "model"))
    assert done.returncode == 1
    assert f"error: {home}" in done.stderr
    assert "Not a directory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_output_is_checked_before_the_download(hub: HubServer, home: Path, tmp_path: Path) -> None:
    hub.push(FILES)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "notes.txt").write_text("mine", encoding="utf-8")
    done = run_import(hub, home, NAME, "--output", str(tmp_path / "model"))
    assert done.returncode != 0
    assert f"{tmp_path / 'model'}: exists" in done.stderr
    assert hub.new_requests() == []


def test_a_path_has_no_revision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(tmp_path), "--revision", "main", "--output", str(tmp_path / "model")]) == 2
    assert f"--revision is for a model of the hub; {tmp_path} is here." in capsys.readouterr().err
