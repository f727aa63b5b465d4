"""Keys of clients: the file, new keys, reloading, and what identifies a client."""

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from transduce.errors import ConfigError
from transduce.serve.operations import keys as keys_module
from transduce.serve.operations.keys import Key, KeyRing, add_key, read_keys
from transduce.serve.requests import Priority


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def test_a_new_key_identifies_its_client(path: Path) -> None:
    first = add_key(path, "weblate", per_minute=60, per_day=1000, bulk=True)
    second = add_key(path, "me@home")
    ring = KeyRing(path)
    assert len(ring) == 2
    weblate, me = ring.identify(first), ring.identify(second)
    assert weblate is not None
    assert me is not None
    assert (weblate.name, weblate.characters_per_minute, weblate.characters_per_day) == ("weblate", 60, 1000)
    assert weblate.request_priority == Priority.BULK
    assert (me.name, me.characters_per_minute, me.request_priority) == ("me@home", 0, Priority.INTERACTIVE)
    for wrong in ("", first[:-1], first + "x", first.upper(), weblate.sha256, "\ud800", "ü" * 1000):
        assert ring.identify(wrong) is None


def test_secrets_are_long_and_not_in_the_file(path: Path) -> None:
    secrets = {add_key(path, f"key{number}") for number in range(5)}
    assert len(secrets) == 5
    text = path.read_text(encoding="utf-8")
    for secret in secrets:
        assert re.fullmatch("[0-9a-f]{48}", secret)
        assert secret not in text
        assert hashlib.sha256(secret.encode()).hexdigest() in text


def test_the_file_is_for_its_owner_only_and_keeps_what_was_written_by_hand(path: Path) -> None:
    add_key(path, "a")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text(encoding="utf-8") + "# asked for by Ms. Ü", encoding="utf-8")
    add_key(path, "b")
    assert "# asked for by Ms. Ü\n\n[[keys]]\n" in path.read_text(encoding="utf-8")
    assert [key.name for key in read_keys(path)] == ["a", "b"]
    assert [each.name for each in path.parent.iterdir()] == ["keys.toml"]


def test_a_file_that_the_service_reads_as_another_user_stays_readable_to_it(path: Path) -> None:
    add_key(path, "a")
    if os.geteuid() == 0:
        os.chown(path, 4711, 4712)
    path.chmod(0o640)
    before, link = path.stat(), path.with_name("link.toml")
    link.symlink_to(path)
    add_key(link, "b")
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert link.is_symlink()
    assert [key.name for key in read_keys(path)] == ["a", "b"]


def test_keys_that_are_added_at_the_same_time_are_all_kept(path: Path) -> None:
    names = [f"key{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        secrets = list(threads.map(lambda name: add_key(path, name), names))
    ring = KeyRing(path)
    assert [getattr(ring.identify(secret), "name", "lost") for secret in secrets] == names


def test_every_key_is_compared_whichever_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = [add_key(path, f"key{number}") for number in range(4)]
    ring = KeyRing(path)
    compared: list[tuple[str, str]] = []
    compare = keys_module.hmac.compare_digest
    monkeypatch.setattr(keys_module.hmac, "compare_digest", lambda a, b: (compared.append((a, b)), compare(a, b))[1])
    counts = []
    for secret in [*secrets, "wrong"]:
        compared.clear()
        ring.identify(secret)
        counts.append(len(compared))
        assert {len(digest) for pair in compared for digest in pair} == {64}
    assert counts == [4] * 5


def test_a_reload_takes_new_keys_and_survives_a_broken_file(path: Path) -> None:
    first = add_key(path, "a")
    ring = KeyRing(path)
    second = add_key(path, "b")
    assert ring.identify(second) is None
    ring.reload()
    assert ring.identify(second) is not None
    path.write_text("[[keys]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not a TOML file of keys"):
        ring.reload()
    assert ring.identify(first) is not None
    path.write_text("", encoding="utf-8")
    ring.reload()
    assert ring.identify(first) is None


DIGEST = "0" * 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[keys]]\n", r"entry 1: 'name' is missing"),
        ("[[keys]]\nname = 'a'\n", r"entry 1: 'sha256' is missing"),
        ("[[keys]]\nname = 'a'\nsha256 = 'secret'\n", "sha256: must be 64 hexadecimal digits"),
        (f"[[keys]]\nname = 'a b'\nsha256 = '{DIGEST}'\n", "name = 'a b': must be letters"),
        (f"[[keys]]\nname = 3\nsha256 = '{DIGEST}'\n", "name = 3: must be a text"),
        (f"[[keys]]\nname = 'a'\nsha256 = '{DIGEST}'\nper_minute = 3\n", "unknown key 'per_minute'.*'characters_per_"),
        (f"[[keys]]\nname = 'a'\nsha256 = '{DIGEST}'\ncharacters_per_day = -1\n", "characters_per_day: must be from 0"),
        (f"[[keys]]\nname = 'a'\nsha256 = '{DIGEST}'\ncharacters_per_day = true\n", "must be a whole number"),
        (f"[[keys]]\nname = 'a'\nsha256 = '{DIGEST}'\npriority = 'high'\n", "must be one of 'interactive', 'bulk'"),
        (f"[[keys]]\nname = 'a'\nsha256 = '{DIGEST}'\n" * 2, "entry 2: another entry has the same name"),
        (f"[[keys]]\nname = 'a'\nsha256 = '{DIGEST}'\n[[keys]]\nname = 'b'\nsha256 = '{DIGEST}'\n", "the same sha256"),
        ("keys = ['a']\n", r"write \[\[keys\]\]"),
        ("[[key]]\nname = 'a'\n", r"unknown key 'key'"),
        ("name = ", "not a TOML file of keys"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_entry(path: Path, text: str, message: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as raised:
        KeyRing(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_the_longest_name_and_the_greatest_limit(path: Path) -> None:
    for name in ("a", "7", "a" * 100, "a.b_c-d@e", "Z9"):
        assert Key(name, DIGEST, 10**15, 10**15, "Bulk").request_priority is Priority.BULK
    for name in ("a" * 101, "-a", "@a", "ü", "a/b", " "):
        with pytest.raises(ConfigError, match="at most 100, a letter or digit first"):
            Key(name, DIGEST)
    for limits in ((10**15 + 1, 0), (0, 10**15 + 1)):
        with pytest.raises(ConfigError, match=r"must be from 0 \(no limit\) to 1,000,000,000,000,000"):
            Key("a", DIGEST, *limits)
    for digest in (DIGEST[1:], DIGEST + "0", "A" * 64, ""):
        with pytest.raises(ConfigError, match="sha256"):
            Key("a", digest)


def test_a_file_has_only_what_was_set(path: Path) -> None:
    first = add_key(path, "a", per_day=5)
    second = add_key(path, "b", per_minute=7, bulk=True)
    hashes = [hashlib.sha256(secret.encode()).hexdigest() for secret in (first, second)]
    assert path.read_text(encoding="utf-8") == (
        f'[[keys]]\nname = "a"\nsha256 = "{hashes[0]}"\ncharacters_per_day = 5\n\n'
        f'[[keys]]\nname = "b"\nsha256 = "{hashes[1]}"\ncharacters_per_minute = 7\npriority = "bulk"\n'
    )


def test_a_missing_file_says_how_to_make_it(path: Path) -> None:
    with pytest.raises(ConfigError, match="--add-key NAME"):
        KeyRing(path)


@pytest.mark.parametrize(
    ("name", "message"), [("a", "has a key 'a' already"), ("b c", "name = 'b c'"), ("", "name = ''")]
)
def test_a_key_that_cannot_be_added_leaves_the_file_alone(path: Path, name: str, message: str) -> None:
    add_key(path, "a")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=message):
        add_key(path, name)
    assert path.read_bytes() == before
