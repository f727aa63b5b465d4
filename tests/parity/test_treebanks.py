"""Trees of three treebanks survive reading, normalising, linearising, repairing and writing."""

from pathlib import Path

import pytest

from transduce.treebank import Tree, delinearise, linearise, normalise, read_trees, repair
from transduce.treebank.normalise import TRACE
from transduce.treebank.trees import parse_line


def check(tree: Tree) -> None:
    """Takes a tree all the way and back."""
    normalised = normalise(tree)
    spoken = [leaf for leaf in tree.leaves() if leaf.tag != TRACE]
    assert normalised is not None
    assert normalised.leaves() == spoken
    words, tags = [leaf.word for leaf in spoken], [leaf.tag for leaf in spoken]
    tokens = linearise(normalised)
    assert delinearise(tokens, words, tags) == normalised
    assert delinearise(linearise(normalised, keep_tags=True), words) == normalised
    assert repair(tokens, words, tags) == normalised
    assert parse_line(str(normalised), "written") == [normalised]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "pattern", "every", "num_trees", "step"),
    [("wsj-sample", "*/*.mrg", 1, 3914, 2), ("gum", "*/*.ptb", 2, 6649, 5), ("craft", "*.tree", 4, 8392, 5)],
)
def test_trees_come_back_as_they_were(
    shared: Path, folder: str, pattern: str, every: int, num_trees: int, step: int
) -> None:
    """Of large treebanks, every second or fourth file is read; of these trees, every second or fifth is checked."""
    treebank = shared / "data/trees" / folder
    if not treebank.is_dir():
        pytest.skip(f"{treebank} is absent: set TRANSDUCE_SHARED to a folder that has it")
    num_read = 0
    for path in sorted(treebank.glob(pattern))[::every]:
        for tree in read_trees(path):
            if num_read % step == 0:
                check(tree)
            num_read += 1
    assert num_read == num_trees
