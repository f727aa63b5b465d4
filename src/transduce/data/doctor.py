"""The data doctor: what is wrong with a corpus, found before any compute is spent on it.

One pass over the text, after a look at its beginning to see what the two languages look like, counts what would
harm training or falsify scores, and decides which pairs are kept. Files that are not UTF-8 or not aligned stop
it. What depends on subwords (over-long pairs, odd ratios) is counted when the corpus is encoded.

Leakage. A training pair *leaks* if its source or its target stands in the validation or a test set, white
space at the ends aside. `data.drop_leaked` drops it if

- both sides together are a held-out pair, or
- one side is a held-out line of at least `TELLING_BYTES` bytes.

Shorter lines ("Thank you.", "42") are common property: a translator that may not learn them because a test
set has them would be worse for it, and knowing them proves nothing. They are counted all the same.

Of trees, the sentence alone can leak: the brackets of one are those of many others.
"""

import unicodedata
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from transduce.config import DataConfig
from transduce.data.corpus import Chunk, CorpusFiles, Part, read_chunks
from transduce.data.misalignment import AlignmentCheck
from transduce.data.swapped_sides import Sides, compare_sides
from transduce.data.wrong_language import SideLanguages
from transduce.errors import DataError

TELLING_BYTES = 16  # of UTF-8: five characters of Chinese say as much as sixteen of English
NUM_EXAMPLES = 3

# What other tools take for the end of a line, and we do not.
_HIDDEN_BREAKS = "\r\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e"
_HIDDEN_NAMES = {"\r": "carriage return", "\x0b": "line tabulation", "\x0c": "form feed", "\x85": "next line"}


@dataclass
class Finding:
    """Something counted, and where it was first seen.

    Attributes:
        count: how many pairs, or lines.
        examples: the first few places, `file:line`.
    """

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, places: Sequence[str]) -> None:
        """Counts one for each place."""
        self.count += len(places)
        self.examples.extend(places[: NUM_EXAMPLES - len(self.examples)])


@dataclass
class Findings:
    """What the text alone shows. Training pairs are counted, except where said otherwise.

    Attributes:
        hidden_breaks: lines, of every split, with a character that other tools take for a line end; by
            character.
        empty: pairs with nothing but white space on a side; always dropped.
        copies: pairs with equal sides.
        wrong_language_sources: pairs whose source is in the target's language (`data/wrong_language.py`).
        wrong_language_targets: pairs whose target is in the source's language.
        wrong_language_dropped: pairs dropped for either, if `data.drop_wrong_language`.
        duplicates: pairs that stand earlier in the corpus; dropped if `data.drop_duplicates`.
        leaked_sources: pairs whose source stands in a held-out set.
        leaked_targets: pairs whose target does.
        leaked_pairs: pairs that stand there whole.
        leaks_dropped: pairs dropped for it.
        held_out_empty: pairs of validation and test sets with an empty side.
        held_out_wrong_language: pairs of these sets with a side in the other side's language.
        held_out_overlap: pairs of a held-out set whose source or target stands in another one.
        misaligned: pairs of any set that do not belong together, by what is wrong with them
            (`data/misalignment.py`); those of a part in the wrong language are not counted as such once more.
    """

    hidden_breaks: dict[str, Finding] = field(default_factory=dict)
    empty: Finding = field(default_factory=Finding)
    copies: Finding = field(default_factory=Finding)
    wrong_language_sources: Finding = field(default_factory=Finding)
    wrong_language_targets: Finding = field(default_factory=Finding)
    wrong_language_dropped: Finding = field(default_factory=Finding)
    duplicates: Finding = field(default_factory=Finding)
    leaked_sources: Finding = field(default_factory=Finding)
    leaked_targets: Finding = field(default_factory=Finding)
    leaked_pairs: Finding = field(default_factory=Finding)
    leaks_dropped: Finding = field(default_factory=Finding)
    held_out_empty: Finding = field(default_factory=Finding)
    held_out_wrong_language: Finding = field(default_factory=Finding)
    held_out_overlap: dict[str, Finding] = field(default_factory=dict)
    misaligned: dict[str, Finding] = field(default_factory=dict)


@dataclass
class Examination:
    """What the doctor found in a corpus.

    Attributes:
        findings: the counts.
        kept: for each training pair, whether it stays.
        part_sizes: pairs in each part of the training corpus.
        num_held_out: pairs in `validation` and in each `test.NAME`.
    """

    findings: Findings
    kept: NDArray[np.bool_]
    part_sizes: list[int]
    num_held_out: dict[str, int]


@dataclass
class _HeldOut:
    sources: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)


def examine(files: CorpusFiles, data: DataConfig, *, progress: bool) -> Examination:
    """Returns what is wrong with a corpus and which training pairs are kept.

    Raises:
        DataError: a file is not UTF-8, damaged, or not aligned with its other side.
    """
    findings = Findings()
    sides = compare_sides(files, data)
    alignment = AlignmentCheck(sides)
    held_out, counts = _read_held_out(files, sides, alignment, findings)
    kept: list[NDArray[np.bool_]] = []
    part_sizes = [0] * len(files.train)
    hashes = array("q")  # 8 bytes a pair
    parts: list[Chunk] = []  # the first chunk of each
    for chunk in read_chunks(files.train, "checking the corpus", progress=progress):
        part = files.train[chunk.part]
        # What is wrong with a part as a whole is said once, not of each line.
        judged = data.drop_wrong_language or part not in sides.faults
        kept.append(_examine_chunk(chunk, data, held_out, sides.languages if judged else None, findings))
        if files.train.index(part) == chunk.part:  # not again where a part is named twice
            alignment.add(part, chunk)
        hashes.extend(hash(pair) for pair in chunk.pairs)
        part_sizes[chunk.part] += len(kept[-1])
        if chunk.line == 1:
            parts.append(chunk)
    mask = np.concatenate(kept) if kept else np.zeros(0, dtype=bool)
    duplicates = find_duplicates(np.frombuffer(hashes, dtype=np.int64), mask)
    findings.duplicates = Finding(len(duplicates), [_place_of(i, parts) for i in duplicates[:NUM_EXAMPLES].tolist()])
    if data.drop_duplicates:
        mask[duplicates] = False
    for wrong in alignment.finish(files, progress=progress):
        findings.misaligned[wrong.fault] = Finding(wrong.count, [wrong.place])
    return Examination(findings, mask, part_sizes, counts)


def _examine_chunk(
    chunk: Chunk, data: DataConfig, held_out: "_HeldOut", languages: SideLanguages | None, findings: Findings
) -> NDArray[np.bool_]:
    """Counts what is wrong with the pairs of a chunk, and returns which of them are kept."""
    keep = np.ones(len(chunk.pairs), dtype=bool)
    _find_hidden_breaks(chunk, findings)
    empty = _empty(chunk)
    keep[empty] = False
    findings.empty.add(_places(chunk, empty))
    findings.copies.add(_places(chunk, [i for i, (src, tgt) in enumerate(chunk.pairs) if src == tgt and keep[i]]))
    leaks = _find_leaks(chunk, held_out, findings)
    if data.drop_leaked:
        keep[leaks] = False
        findings.leaks_dropped.add(_places(chunk, leaks))
    sources, targets = _wrong_language(chunk, languages)
    findings.wrong_language_sources.add(_places(chunk, sources))
    findings.wrong_language_targets.add(_places(chunk, targets, side=1))
    if data.drop_wrong_language:
        wrong = [i for i in sorted({*sources, *targets}) if keep[i]]
        keep[wrong] = False
        findings.wrong_language_dropped.add(_places(chunk, wrong))
    return keep


def _wrong_language(chunk: Chunk, languages: SideLanguages | None) -> tuple[list[int], list[int]]:
    """Returns which sources, and which targets, are in the language of the other side."""
    if languages is None:
        return [], []
    sources, targets = (languages.misplaced([pair[side] for pair in chunk.pairs], side) for side in (0, 1))
    return sources, targets


def _place_of(pair: int, parts: Sequence[Chunk]) -> str:
    """Returns `file:line` of a pair by its number in the whole corpus; `parts` are the first chunks of its parts."""
    part = max((chunk for chunk in parts if chunk.start <= pair), key=lambda chunk: chunk.start)
    return part.place(pair - part.start)


def find_duplicates(hashes: NDArray[np.int64], among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the positions of pairs that repeat an earlier one, of those marked in `among`."""
    positions = np.flatnonzero(among)
    ordered = np.sort(hashes[positions])
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(repeated):
        return np.zeros(0, dtype=np.int64)
    # Few pairs repeat: only those are looked at closely, to spare memory.
    nearest = np.minimum(np.searchsorted(repeated, hashes[positions]), len(repeated) - 1)
    suspects = positions[repeated[nearest] == hashes[positions]]
    _, first = np.unique(hashes[suspects], return_index=True)
    return np.delete(suspects, first)


def _read_held_out(
    files: CorpusFiles, sides: Sides, alignment: AlignmentCheck, findings: Findings
) -> tuple[_HeldOut, dict[str, int]]:
    """Returns the lines of validation and test sets, and how many pairs each set has."""
    splits: dict[str, Part] = {"validation": files.validation} if files.validation else {}
    splits |= {f"test.{name}": part for name, part in files.test.items()}
    together, counts = _HeldOut(), {}
    for name, part in splits.items():
        counts[name] = 0
        own = _HeldOut()
        for chunk in read_chunks([part], f"reading {name}", progress=False):
            counts[name] += len(chunk.pairs)
            _find_hidden_breaks(chunk, findings)
            empty = _empty(chunk)
            findings.held_out_empty.add(_places(chunk, empty))
            alignment.add(part, chunk)
            sources, targets = _wrong_language(chunk, None if part in sides.faults else sides.languages)
            wrong = sorted({*sources, *targets})
            findings.held_out_wrong_language.add([chunk.place(i, side=i not in sources) for i in wrong])
            pairs = [(src.strip(), tgt.strip()) for src, tgt in chunk.pairs]
            overlap = [i for i, (src, tgt) in enumerate(pairs) if src in together.sources or tgt in together.targets]
            if overlap:
                findings.held_out_overlap.setdefault(name, Finding()).add(_places(chunk, overlap))
            own.sources.update(src for src, _ in pairs if src)
            own.targets.update(tgt for _, tgt in pairs if tgt and not part.trees)
            own.pairs.update(pairs)
        together.sources |= own.sources
        together.targets |= own.targets
        together.pairs |= own.pairs
    return together, counts


def _find_leaks(chunk: Chunk, held_out: _HeldOut, findings: Findings) -> list[int]:
    """Counts the pairs of the chunk that leak, and returns those to be dropped for it."""
    if not held_out.pairs:
        return []
    sources, targets, pairs, dropped = [], [], [], []
    for i, (src, tgt) in enumerate(chunk.pairs):
        source, target = src.strip(), tgt.strip()
        source_leaks, target_leaks = source in held_out.sources, target in held_out.targets
        if not (source_leaks or target_leaks):
            continue
        whole = (source, target) in held_out.pairs
        sources += [i] * source_leaks
        targets += [i] * target_leaks
        pairs += [i] * whole
        if whole or (source_leaks and _is_telling(source)) or (target_leaks and _is_telling(target)):
            dropped.append(i)
    findings.leaked_sources.add(_places(chunk, sources))
    findings.leaked_targets.add(_places(chunk, targets, side=1))
    findings.leaked_pairs.add(_places(chunk, pairs))
    return dropped


def _is_telling(line: str) -> bool:
    return len(line.encode()) >= TELLING_BYTES


def _empty(chunk: Chunk) -> list[int]:
    return [i for i, (src, tgt) in enumerate(chunk.pairs) if not src.strip() or not tgt.strip()]


def _find_hidden_breaks(chunk: Chunk, findings: Findings) -> None:
    for side in (0, 1):
        lines = [pair[side] for pair in chunk.pairs]
        text = "\n".join(lines)  # one search of the whole is far faster than one a line
        for character in _HIDDEN_BREAKS:
            if character in text:
                found = [i for i, line in enumerate(lines) if character in line]
                finding = findings.hidden_breaks.setdefault(_name(character), Finding())
                finding.add(_places(chunk, found, side=side))


def _name(character: str) -> str:
    name = _HIDDEN_NAMES.get(character) or unicodedata.name(character, "separator").lower()
    return f"U+{ord(character):04X} {name}"


def _places(chunk: Chunk, indices: Sequence[int], side: int = 0) -> list[str]:
    return [chunk.place(i, side) for i in indices]


def describe(findings: Findings) -> dict[str, Finding]:
    """Returns each finding that found something, under a phrase that goes after its count."""
    phrases = {f"pairs misaligned: {fault}": finding for fault, finding in findings.misaligned.items()}
    phrases |= {
        "training pairs with an empty side (dropped)": findings.empty,
        "training pairs with source and target the same": findings.copies,
        "training pairs whose source is in the target's language": findings.wrong_language_sources,
        "training pairs whose target is in the source's language": findings.wrong_language_targets,
        "training pairs dropped for a side in the wrong language": findings.wrong_language_dropped,
        "training pairs that repeat an earlier pair": findings.duplicates,
        "training pairs whose source is held out": findings.leaked_sources,
        "training pairs whose target is held out": findings.leaked_targets,
        "training pairs that are held out whole": findings.leaked_pairs,
        "training pairs dropped as leaked": findings.leaks_dropped,
        "held-out pairs with an empty side": findings.held_out_empty,
        "held-out pairs with a side in the other side's language": findings.held_out_wrong_language,
    }
    phrases |= {
        f"pairs of {name} that stand in another held-out set": f for name, f in findings.held_out_overlap.items()
    }
    phrases |= {f"lines with a hidden line break, {name}": f for name, f in findings.hidden_breaks.items()}
    return {phrase: finding for phrase, finding in phrases.items() if finding.count}


def require_aligned(findings: Findings, data: DataConfig) -> None:
    """Refuses a corpus some of whose pairs do not belong together.

    Raises:
        DataError: there are such pairs, and `data.allow_misaligned` is not set.
    """
    if findings.misaligned and not data.allow_misaligned:
        faults = "; ".join(findings.misaligned)
        raise DataError(
            f"The corpus is not aligned: {faults}. Mend the files; "
            "or, if they are as they should be, set data.allow_misaligned=true."
        )
