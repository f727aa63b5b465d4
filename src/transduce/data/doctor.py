"""The data doctor: checks a corpus before any compute is spent on it.

It counts what would harm training or falsify scores, and decides which pairs are kept. The text is read once, after a
look at its beginning that shows what the two languages look like. Files that are not UTF-8, or differ in their number
of lines, are errors. What depends on subwords (over-long pairs, odd length ratios) is counted when the corpus is
encoded.

Leakage. A training pair *leaks* if its source or its target is also in the validation set or a test set. Case,
punctuation, spaces and the Unicode form do not count (`data/held_out.py`). `data.drop_leaked` drops a pair if

- the whole pair is held out, or
- one side is a held-out line of at least `MIN_LEAK_BYTES` bytes.

Shorter lines ("Thank you.", "42") occur everywhere. A translator should learn them even if a test set has them, and
knowing them proves nothing. They are counted all the same. Near-copies of held-out lines, in which one word differs,
are counted and shown with the line that they resemble. In many corpora they are sentences of their own, so they are
dropped only if `data.drop_near_copies` is set.

A dropped pair is not a problem of the corpus: `transduce init` takes a validation set from it. The report therefore
says how many pairs are left out (`data/prepare_report.py`), and does not list them among the problems. Nor does it
list near-copies there.

In a treebank, only the sentence can leak: many sentences have the same brackets.
"""

import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from transduce.config import DataConfig
from transduce.data.corpus import Chunk, CorpusFiles, Reader, read_chunks
from transduce.data.corpus_tags import CorpusTags
from transduce.data.dropped import Dropped, Log, ignore
from transduce.data.duplicates import find_repeats
from transduce.data.held_out import HeldOutLines, Leaks, Pair
from transduce.data.misalignment import AlignmentCheck
from transduce.data.swapped_sides import compare_sides
from transduce.data.unfamiliar_characters import CharacterCheck
from transduce.data.wrong_language import SideLanguages
from transduce.errors import DataError

NUM_EXAMPLES = 3

# Characters at which other tools end a line. We do not.
HIDDEN_BREAKS = "\r\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e"
_HIDDEN_NAMES = {"\r": "carriage return", "\x0b": "line tabulation", "\x0c": "form feed", "\x85": "next line"}


@dataclass
class Finding:
    """A problem: how often it was found, and where first.

    Attributes:
        count: number of pairs or lines.
        examples: the first few locations, `file:line`.
    """

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, locations: Sequence[str]) -> None:
        """Counts one for each location."""
        self.count += len(locations)
        self.examples.extend(locations[: NUM_EXAMPLES - len(self.examples)])


@dataclass
class Findings:
    """What the text alone shows. Counts are of training pairs, unless another set is named.

    Attributes:
        hidden_breaks: lines of any set with a character at which other tools end a line; by character.
        skipped_units: units of translation memories, of any set, without a text in one of the two languages. They
            are no pairs, so no other count has them.
        empty: pairs with a side that is empty or white space; always dropped.
        copies: pairs with equal source and target.
        wrong_language_sources: pairs whose source is in the target's language (`data/wrong_language.py`).
        wrong_language_targets: pairs whose target is in the source's language.
        wrong_language_dropped: pairs dropped for either, if `data.drop_wrong_language` is set.
        duplicates: pairs that repeat an earlier pair, its tags included; dropped if `data.drop_duplicates` is set.
        leaked_sources: pairs whose source is in a held-out set.
        leaked_targets: pairs whose target is in a held-out set.
        leaked_pairs: pairs that are in a held-out set as a whole.
        leaks_dropped: pairs dropped because they leak.
        leaks_kept: pairs that leak and are kept: short lines, or all if `data.drop_leaked` is not set.
        near_copies: pairs that are none of these, but have a side that is a near-copy of a held-out line.
        held_out_empty: pairs of validation and test sets with an empty side.
        held_out_wrong_language: pairs of validation and test sets with a side in the other side's language.
        held_out_overlap: pairs of a held-out set whose source or target is also in another one; by set. Sets of one
            kind in other languages do not count.
        misaligned: pairs of any set that are not translations of each other (`data/misalignment.py`); by problem.
            Files that are in the wrong language as a whole are reported here only.
        unfamiliar_characters: lines of a held-out set with a character that training text hardly has
            (`data/unfamiliar_characters.py`); by set, side and character.
    """

    hidden_breaks: dict[str, Finding] = field(default_factory=dict)
    skipped_units: Finding = field(default_factory=Finding)
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
    leaks_kept: Finding = field(default_factory=Finding)
    near_copies: Finding = field(default_factory=Finding)
    held_out_empty: Finding = field(default_factory=Finding)
    held_out_wrong_language: Finding = field(default_factory=Finding)
    held_out_overlap: dict[str, Finding] = field(default_factory=dict)
    misaligned: dict[str, Finding] = field(default_factory=dict)
    unfamiliar_characters: dict[str, Finding] = field(default_factory=dict)


@dataclass
class Examination:
    """What the doctor found in a corpus.

    Attributes:
        findings: the counts.
        kept: for each training pair, whether it is kept.
        repeats: indices of the pairs that are dropped as duplicates, and of the earlier pair that each repeats. They
            are not logged yet: they are found at the end, when their text is gone.
        log: where the pairs that are dropped are logged.
        readers: of each part of the training corpus that has pairs, the index of the first one, and its reader.
        part_sizes: number of pairs in each part of the training corpus.
        part_characters: number of target characters in each part.
        num_held_out: number of pairs in `validation` and in each `test.NAME`.
    """

    findings: Findings
    kept: NDArray[np.bool_]
    repeats: tuple[NDArray[np.int64], NDArray[np.int64]]
    log: Log
    readers: list[tuple[int, Reader]]
    part_sizes: list[int]
    part_characters: list[int]
    num_held_out: dict[str, int]

    def dropped_repeats(self, chunk: Chunk) -> dict[int, Dropped]:
        """Returns the pairs of a chunk that are dropped as duplicates, by their indices in it."""
        later, earlier = self.repeats
        first, end = np.searchsorted(later, (chunk.start, chunk.start + len(chunk.pairs))).tolist()
        return {
            i: Dropped(chunk.location(i), "duplicate", f"repeats {_location(original, self.readers)}", *chunk.pairs[i])
            for i, original in zip((later[first:end] - chunk.start).tolist(), earlier[first:end].tolist(), strict=True)
        }


def examine(files: CorpusFiles, data: DataConfig, *, progress: bool, log: Log = ignore) -> Examination:
    """Checks a corpus, and returns what is wrong with it and which training pairs are kept.

    Args:
        files: the corpus.
        data: says what is dropped.
        progress: whether to show a progress bar.
        log: receives each pair that is dropped, but for duplicates.

    Raises:
        DataError: a file is not UTF-8 or damaged, or two files differ in their number of lines.
    """
    findings, characters = Findings(), CharacterCheck()
    alignments = {pair: AlignmentCheck(sides) for pair, sides in compare_sides(files).items()}
    held_out, num_held_out = _read_held_out(files, alignments, characters, findings)
    kept: list[NDArray[np.bool_]] = []
    part_sizes, part_characters = [0] * len(files.train), [0] * len(files.train)
    tags = CorpusTags.of(data).of_train  # with other ones, a pair is no repetition: it trains another translation
    hashes = array("q")  # 8 bytes a pair
    readers: list[tuple[int, Reader]] = []
    for chunk in read_chunks(files.train, "checking the corpus", progress=progress):
        part = files.train[chunk.part]
        # If a whole part is in the wrong language, that is reported once, and not for each line.
        sides = alignments[part.languages].sides
        check_languages = data.drop_wrong_language or part not in sides.faults
        leaks = held_out.leaks(chunk, part.languages)
        dropped = _examine_chunk(chunk, data, leaks, sides.languages if check_languages else None, findings)
        kept.append(np.ones(len(chunk.pairs), dtype=bool))
        kept[-1][[*dropped]] = False
        for i, (rule, reason) in sorted(dropped.items()):
            log(Dropped(chunk.location(i), rule, reason, *chunk.pairs[i]))
        if files.train.index(part) == chunk.part:  # a part that is listed twice is checked once
            alignments[part.languages].add(part, chunk)
        characters.add_training(chunk, part.languages)
        hashes.extend(hash((tags[chunk.part], pair)) for pair in chunk.pairs)
        part_sizes[chunk.part] += len(kept[-1])
        part_characters[chunk.part] += sum(len(target) for _, target in chunk.pairs)
        if chunk.line == 1:
            readers.append((chunk.start, chunk.reader))
    for _, reader in readers:
        _count_skipped(reader, findings)
    mask = np.concatenate(kept) if kept else np.zeros(0, dtype=bool)
    repeats = find_repeats(np.frombuffer(hashes, dtype=np.int64), mask)
    examples = [_location(pair, readers) for pair in repeats[0][:NUM_EXAMPLES].tolist()]
    findings.duplicates = Finding(len(repeats[0]), examples)
    if data.drop_duplicates:
        mask[repeats[0]] = False
    else:
        repeats = repeats[0][:0], repeats[1][:0]
    for alignment in alignments.values():
        for fault, count, location in alignment.finish(files, progress=progress):
            findings.misaligned[fault] = Finding(count, [location])
    for described, count, location in characters.finish():
        findings.unfamiliar_characters[described] = Finding(count, [location])
    return Examination(findings, mask, repeats, log, readers, part_sizes, part_characters, num_held_out)


def _examine_chunk(
    chunk: Chunk, data: DataConfig, leaks: Leaks, languages: SideLanguages | None, findings: Findings
) -> dict[int, tuple[str, str]]:
    """Counts the problems of a chunk, and returns for each of its pairs that is dropped the first rule and reason."""
    _find_hidden_breaks(chunk, findings)
    empty = _empty(chunk)
    findings.empty.add(chunk.locations(empty))
    dropped = {i: ("empty", f"the {'target' if chunk.pairs[i][0].strip() else 'source'} is empty") for i in empty}
    copies = [i for i, (src, tgt) in enumerate(chunk.pairs) if src == tgt and i not in dropped]
    findings.copies.add(chunk.locations(copies))
    dropped = _count_leaks(chunk, data, leaks, findings) | dropped
    sources, targets = _wrong_language(chunk, languages)
    findings.wrong_language_sources.add(chunk.locations(sources))
    findings.wrong_language_targets.add(chunk.locations(targets, side=1))
    if data.drop_wrong_language:
        wrong = dict.fromkeys(targets, "the target is in the source's language")
        wrong |= dict.fromkeys(sources, "the source is in the target's language")
        wrong = {i: reason for i, reason in sorted(wrong.items()) if i not in dropped}
        findings.wrong_language_dropped.add(chunk.locations([*wrong]))
        dropped |= {i: ("language", reason) for i, reason in wrong.items()}
    return dropped


def _wrong_language(chunk: Chunk, languages: SideLanguages | None) -> tuple[list[int], list[int]]:
    """Returns which sources and which targets are in the language of the other side."""
    if languages is None:
        return [], []
    sources, targets = (languages.misplaced([pair[side] for pair in chunk.pairs], side) for side in (0, 1))
    return sources, targets


def _location(pair: int, readers: Sequence[tuple[int, Reader]]) -> str:
    """Returns `file:line` of a pair, given its index in the whole corpus, and start and reader of each part."""
    start, reader = max((each for each in readers if each[0] <= pair), key=lambda each: each[0])
    return reader.location(pair - start + 1).shown(0)


def _read_held_out(
    files: CorpusFiles,
    alignments: Mapping[Pair, AlignmentCheck],
    characters: CharacterCheck,
    findings: Findings,
) -> tuple[HeldOutLines, dict[str, int]]:
    """Returns the lines of validation and test sets, and the number of pairs in each set."""
    all_sets, counts = HeldOutLines(), dict.fromkeys(files.held_out(), 0)
    seen: dict[tuple[str, Pair], HeldOutLines] = {}  # by kind of the set and languages
    for name, part in files.held_out().items():
        this_set: list[Chunk] = []
        kind = name.partition(".")[0]
        # Two validation sets, or two test sets, may have the same sentences for different languages.
        others = [lines for (other, pair), lines in seen.items() if other != kind or pair == part.languages]
        for chunk in read_chunks([part], f"reading {name}", progress=False):
            counts[name] += len(chunk.pairs)
            _find_hidden_breaks(chunk, findings)
            findings.held_out_empty.add(chunk.locations(_empty(chunk)))
            alignments[part.languages].add(part, chunk)
            characters.add_held_out(name, chunk, part.languages)
            sides = alignments[part.languages].sides
            sources, targets = _wrong_language(chunk, None if part in sides.faults else sides.languages)
            wrong = sorted({*sources, *targets})
            findings.held_out_wrong_language.add([chunk.location(i, side=i not in sources) for i in wrong])
            if overlap := {index for lines in others for index in lines.overlaps(chunk)}:
                findings.held_out_overlap.setdefault(name, Finding()).add(chunk.locations(sorted(overlap)))
            this_set.append(chunk)
        if this_set:
            _count_skipped(this_set[-1].reader, findings)
        of_kind = seen.setdefault((kind, part.languages), HeldOutLines())
        for chunk in this_set:
            for lines in (all_sets, of_kind):
                lines.add(chunk, part.languages, targets=not part.trees)
    return all_sets, counts


def _count_skipped(reader: Reader, findings: Findings) -> None:
    """Counts the units of a part that were skipped, once all of it is read."""
    count, locations = reader.skipped
    findings.skipped_units.add(locations)
    findings.skipped_units.count += count - len(locations)


def _count_leaks(chunk: Chunk, data: DataConfig, leaks: Leaks, findings: Findings) -> dict[int, tuple[str, str]]:
    """Counts the pairs of the chunk that leak, and returns those that are dropped, with rule and reason."""
    dropped, kept = (leaks.certain, leaks.short) if data.drop_leaked else ([], sorted(leaks.certain + leaks.short))
    findings.leaked_sources.add(chunk.locations(leaks.sources))
    findings.leaked_targets.add(chunk.locations(leaks.targets, side=1))
    findings.leaked_pairs.add(chunk.locations(leaks.pairs))
    for finding, pairs, verb in (
        (findings.leaks_dropped, dropped, "is"),
        (findings.leaks_kept, kept, "is"),
        (findings.near_copies, leaks.near, "resembles"),
    ):
        finding.add([f"{chunk.location(pair)} {verb} {leaks.copies[pair]}" for pair in pairs])
    rules = {pair: ("leak", f"repeats {leaks.copies[pair]}") for pair in dropped}
    near = leaks.near if data.drop_near_copies else []
    return rules | {pair: ("near-copy", f"resembles {leaks.copies[pair]}") for pair in near}


def _empty(chunk: Chunk) -> list[int]:
    return [i for i, (src, tgt) in enumerate(chunk.pairs) if not src.strip() or not tgt.strip()]


def _find_hidden_breaks(chunk: Chunk, findings: Findings) -> None:
    for side in (0, 1):
        lines = [pair[side] for pair in chunk.pairs]
        text = "\n".join(lines)  # one search in all lines is far faster than one search a line
        for character in HIDDEN_BREAKS:
            if character in text:
                found = [i for i, line in enumerate(lines) if character in line]
                finding = findings.hidden_breaks.setdefault(_name(character), Finding())
                finding.add(chunk.locations(found, side=side))


def _name(character: str) -> str:
    name = _HIDDEN_NAMES.get(character) or unicodedata.name(character, "separator").lower()
    return f"U+{ord(character):04X} {name}"


def require_aligned(findings: Findings, data: DataConfig) -> None:
    """Refuses a corpus with misaligned pairs.

    Raises:
        DataError: there are such pairs, and `data.allow_misaligned` is not set.
    """
    if findings.misaligned and not data.allow_misaligned:
        raise DataError(
            f"The corpus is not aligned: {'; '.join(findings.misaligned)}. Correct the files. If 'transduce "
            "init' took the validation set from them, delete it and the recipe, and run init again. If the files are "
            "right as they are, set data.allow_misaligned=true."
        )
