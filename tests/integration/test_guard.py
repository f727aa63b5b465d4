"""The guard's thresholds on text that people wrote: no reference of Multi30k is a loop or a copy."""

from pathlib import Path

import pytest

from transduce.data.readers import read_lines
from transduce.translation.pipeline.guard import doubts


@pytest.mark.parametrize("name", ["val", "test_2016_flickr", "test_2017_flickr"])
@pytest.mark.parametrize("language", ["de", "fr"])
def test_no_false_alarm_on_references(shared: Path, name: str, language: str) -> None:
    folder = shared / "data" / "multi30k" / "raw"
    pairs = list(zip(read_lines(folder / f"{name}.en"), read_lines(folder / f"{name}.{language}"), strict=True))
    assert len(pairs) >= 1000
    assert [(source, target) for source, target in pairs if doubts(source, target)] == []
    copied = [source for source, _ in pairs if doubts(source, source)]
    assert len(copied) > 0.95 * len(pairs)  # and a copy is seen, but for lines of few words
