"""A small parallel corpus of a few words, and its configuration."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.config import Config, DataConfig, TextConfig


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    generator = random.Random(seed)
    words = [
        ("dog", "Hund"),
        ("cat", "Katze"),
        ("runs", "läuft"),
        ("big", "groß"),
        ("house", "Haus"),
        ("sees", "sieht"),
    ]
    result = []
    for _ in range(count):
        chosen = generator.choices(words, k=generator.randint(3, 12))
        number = generator.randint(0, 10**9)
        source, target = (" ".join(pair[side] for pair in chosen) for side in (0, 1))
        result.append((f"{source} {number}.", f"{target} {number}."))
    return result


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{name}.{language}").write_bytes(text.encode())


def made_corpus(folder: Path) -> Config:
    """Writes a small faultless corpus in two parts, with validation and test, and returns its configuration."""
    folder.mkdir()
    write(folder, "one", sentences(400, 1))
    write(folder, "two", sentences(300, 2))
    write(folder, "dev", sentences(50, 3))
    write(folder, "test", sentences(40, 4))
    return Config(
        text=TextConfig(vocab_size=300),
        data=DataConfig(
            folder=str(folder),
            train=(("one.en", "one.de"), ("two.en", "two.de")),
            validation=("dev.en", "dev.de"),
            test={"news": ("test.en", "test.de")},
        ),
    )


def with_data(config: Config, **changes: Any) -> Config:
    return replace(config, data=replace(config.data, **changes))


def corpus_file(config: Config, name: str) -> Path:
    return Path(config.data.folder) / name
