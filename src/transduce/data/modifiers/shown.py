"""Examples of what modifiers do to a prepared corpus, for those who want to see it before they train."""

from pathlib import Path

from transduce.config import Config
from transduce.config.modifiers import MODIFIERS
from transduce.data.mixture import Mixture
from transduce.data.modifiers.modified import Modifiers
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import ConfigError

_TRIED = 10  # lines for each one that is shown: a modifier may find nothing to change


def show_modified(config: Config, folder: Path, count: int) -> str:
    """Returns lines of the first epoch before and after, some for each modifier.

    Args:
        config: whose `train.modifiers` and seed.
        folder: the prepared corpus.
        count: how many lines at most; each modifier has at least one.

    Raises:
        ConfigError: the configuration has no modifiers.
        DataError: the folder cannot be read.
    """
    names = [name for name in MODIFIERS if name in {each.name for each in config.train.modifiers}]
    if not names:
        raise ConfigError("train.modifiers: the recipe has none to show. Add [[train.modifiers]] tables.")
    prepared = load_prepared(folder)
    store = ParallelStore.open(prepared.train, prepared.corpora)
    mixture = Mixture.of(config, store.corpora)
    rows = mixture.rows(mixture.phases[0], config.train.seed, epoch=0)
    pairs = Modifiers.of(config, store).epoch(0, rows)
    parts = []
    for name in names:
        lines = pairs.lines_with(name)
        share = f"{len(lines):,} of {len(pairs):,} lines of the first epoch" if len(lines) else "no line of this epoch"
        parts.append(f"{name}: {MODIFIERS[name].effect}; {share}")
        wanted = max(1, count // len(names))
        for each in pairs.texts(lines[: wanted * _TRIED])[:wanted]:
            also = f" (also {', '.join(other for other in each.modifiers if other != name)})"
            parts.append(f"  line {each.line:,}{also if len(each.modifiers) > 1 else ''}")
            for side, before, after in zip(("source", "target"), each.before, each.after, strict=True):
                parts += [f"    {side}  {before}"] + ([f"         →  {after}"] if after != before else [])
    return "\n".join(parts)
