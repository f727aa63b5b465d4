"""What `prepare` did and found: as JSON for programs, as text for people."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from transduce.config import Config
from transduce.data.doctor import Examination, Finding, Findings
from transduce.data.dropped import LOG_NAME
from transduce.data.encoding import EncodedPart, EncodedSplit
from transduce.data.mixture import CorpusRows, Mixture
from transduce.data.mixture_report import CorpusShare, corpus_shares, describe_shares
from transduce.reporting.tables import counted

_CHARACTERS_A_TOKEN = 4  # of European languages, with subwords of usual size
_FILLED_SHARE = 0.9  # of a batch, the rest being padding
_SHOWN_WORDS = 5


@dataclass
class EpochReport:
    """The batches of one pass over the training pairs.

    Attributes:
        source_budget: most source tokens of a batch, padding included.
        target_budget: most target tokens of a batch.
        num_batches: number of batches in an epoch.
        source_padding_share: share of source positions that are padding.
        target_padding_share: share of target positions that are padding.
        padding_share: share of all positions that are padding.
        source_tokens: of the epoch, without padding.
        target_tokens: likewise.
    """

    source_budget: int
    target_budget: int
    num_batches: int
    source_padding_share: float
    target_padding_share: float
    padding_share: float
    source_tokens: int = 0  # not in reports of earlier versions
    target_tokens: int = 0


@dataclass
class PrepareReport:
    """The outcome of `prepare`.

    Attributes:
        folder: the prepared folder.
        tokenizer: algorithm, vocabulary size requested and reached, fingerprint, words added to an ancestor's.
        findings: what the doctor found in the text.
        train: the training split.
        validation: the validation split, if there is one.
        held_out_pairs: number of pairs in the validation set and in each test set.
        epoch: the batches of the first epoch.
        shares: how often training sees each corpus.
        has_log: whether the folder has a `dropped.jsonl`; earlier versions wrote none.
        seconds: time of each stage.
        reused: whether the folder was prepared already, so that nothing was done.
    """

    folder: str
    tokenizer: dict[str, Any]
    findings: Findings
    train: EncodedSplit
    validation: EncodedSplit | None
    held_out_pairs: dict[str, int]
    epoch: EpochReport
    has_log: bool = False
    shares: list[CorpusShare] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    reused: bool = False

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PrepareReport":
        """Rebuilds a report from what `dataclasses.asdict` returned."""
        values = _with_findings(values)
        kinds = {"findings": Findings, "train": EncodedSplit, "validation": EncodedSplit, "epoch": EpochReport}
        for split in (values["train"], values["validation"] or {}):
            split["parts"] = [EncodedPart(**part) for part in split.get("parts", ())]
        values |= {name: kind(**values[name]) for name, kind in kinds.items() if values[name]}
        return cls(**(values | {"shares": [CorpusShare(**share) for share in values.get("shares", ())]}))

    def __str__(self) -> str:
        train, epoch, tokenizer = self.train, self.epoch, self.tokenizer
        lines = [
            f"{self.folder}: " + ("already prepared, nothing to do" if self.reused else "prepared"),
            f"  training pairs     {train.num_kept:,} kept of {train.num_read:,}",
        ]
        if self.has_log and (num_dropped := train.num_read - train.num_kept):
            lines.append(f"  dropped            {num_dropped:,}, each with its reason in {Path(self.folder, LOG_NAME)}")
        if self.validation:
            sets = {name: count for name, count in self.held_out_pairs.items() if not name.startswith("test.")}
            named = ", ".join(f"{name.partition('.')[2]} {count:,}" for name, count in sets.items())
            lines.append(f"  validation pairs   {self.validation.num_kept:,}{f' ({named})' if len(sets) > 1 else ''}")
        for name, count in self.held_out_pairs.items():
            if name.startswith("test."):
                lines.append(f"  {name + ' pairs':<18} {count:,}, checked for leaks only")
        lines += _left_out_lines(self.findings)
        size = f"{tokenizer['vocab_size']:,} pieces"
        if tokenizer["vocab_size"] < tokenizer["vocab_size_asked"]:
            size += f" ({tokenizer['vocab_size_asked']:,} were requested; the text yields no more)"
        if new_words := tokenizer.get("new_words"):
            more = ", …" if len(new_words) > _SHOWN_WORDS else ""
            size += f" ({counted(len(new_words), 'new word')}: {', '.join(new_words[:_SHOWN_WORDS])}{more})"
        lines += [
            f"  tokenizer          {tokenizer['algorithm']}, {size}, {tokenizer['fingerprint'][:12]}",
            f"  tokens an epoch    {epoch.source_tokens:,} source, {epoch.target_tokens:,} target; "
            f"mean per pair {train.source_tokens / max(1, train.num_kept):.1f} and "
            f"{train.target_tokens / max(1, train.num_kept):.1f}",
            f"  batches an epoch   {epoch.num_batches:,} of at most {epoch.source_budget:,} source "
            f"and {epoch.target_budget:,} target tokens; {epoch.padding_share:.1%} padding",
        ]
        if shares := describe_shares(self.shares):
            lines += ["  corpora", *(f"    {line}" for line in shares.splitlines())]
        found = describe_findings(self.findings)
        if train.over_long.count:
            found["training pair", "longer than data.max_tokens (dropped)"] = train.over_long
        if train.odd_ratio.count:
            found["training pair", "with a length ratio above data.max_ratio (dropped)"] = train.odd_ratio
        return "\n".join(lines + describe_lines(found))


def describe_examination(examination: Examination, config: Config) -> str:
    """Returns what the doctor found, as text, before anything is encoded; tokens are estimated."""
    kept = int(examination.kept.sum())
    lines = [f"training pairs     {kept:,} kept of {len(examination.kept):,}"]
    lines += [f"{name + ' pairs':<18} {count:,}" for name, count in examination.num_held_out.items()]
    lines += _estimated_shares(examination, config)
    found = _left_out_lines(examination.findings) + describe_lines(describe_findings(examination.findings))
    return "\n".join(lines + [line.removeprefix("  ") for line in found])


def _estimated_shares(examination: Examination, config: Config) -> list[str]:
    ends = np.cumsum(examination.part_sizes)
    kept = [int(mask.sum()) for mask in np.split(examination.kept, ends[:-1])]
    corpora = [
        CorpusRows(corpus.name, count, 0, characters // _CHARACTERS_A_TOKEN + count)
        for corpus, count, characters in zip(
            config.data.training_corpora, kept, examination.part_characters, strict=True
        )
    ]
    filled = config.train.target_batch_tokens * _FILLED_SHARE
    shares = describe_shares(corpus_shares(Mixture.of(config, corpora), config.train, filled), estimated=True)
    return ["corpora", *(f"  {line}" for line in shares.splitlines())] if shares else []


def describe_findings(findings: Findings) -> dict[tuple[str, str], Finding]:
    """Returns each problem that was found, by what was counted and the words that follow: "line", "with …"."""
    training, held_out = "training pair", "validation or test pair"
    phrases = {("pair", f"misaligned: {fault}"): finding for fault, finding in findings.misaligned.items()}
    phrases |= {
        ("unit", "of a translation memory without a text in both languages (skipped)"): findings.skipped_units,
        (training, "with an empty side (dropped)"): findings.empty,
        (training, "with equal source and target"): findings.copies,
        (training, "with a source in the target's language"): findings.wrong_language_sources,
        (training, "with a target in the source's language"): findings.wrong_language_targets,
        (training, "dropped because one side is in the wrong language"): findings.wrong_language_dropped,
        (training, "equal to an earlier pair"): findings.duplicates,
        (training, "with a side in validation or test (kept: short, or data.drop_leaked=false)"): findings.leaks_kept,
        (held_out, "with an empty side"): findings.held_out_empty,
        (held_out, "with one side in the language of the other"): findings.held_out_wrong_language,
    }
    phrases |= {
        (f"{name} pair", "with a source or target that is also in another validation or test set"): finding
        for name, finding in findings.held_out_overlap.items()
    }
    phrases |= {("line", f"with a hidden line break, {name}"): f for name, f in findings.hidden_breaks.items()}
    phrases |= {("line", f"of {described}"): finding for described, finding in findings.unfamiliar_characters.items()}
    return {phrase: finding for phrase, finding in phrases.items() if finding.count}


def describe_left_out(findings: Findings) -> str:
    """Returns how many training pairs are left out because they are held out, or "" if there are none."""
    dropped, whole = findings.leaks_dropped.count, findings.leaked_pairs.count
    if not dropped:
        return ""
    verb, one_side = "is" if dropped == 1 else "are", dropped - whole
    detail = f" ({whole:,} as a whole, {one_side:,} on one side)" if one_side else ""
    return f"{counted(dropped, 'pair')} that {verb} also in validation or test{detail}"


def describe_near_copies(findings: Findings) -> str:
    """Returns how many training pairs are near-copies of held-out lines, or "" if there are none."""
    if not findings.near_copies.count:
        return ""
    pairs = counted(findings.near_copies.count, "pair")
    return f"{pairs} with a side in which one word differs from validation or test (data.drop_near_copies drops them)"


def _left_out_lines(findings: Findings) -> list[str]:
    lines = []
    for name, description, finding in (
        ("left out", describe_left_out(findings), findings.leaks_dropped),
        ("near-copies", describe_near_copies(findings), findings.near_copies),
    ):
        if description:
            lines += [f"  {name:<18} {description}", *(f"        {location}" for location in finding.examples)]
    return lines


def describe_lines(found: dict[tuple[str, str], Finding]) -> list[str]:
    """Returns a line for each finding of `describe_findings`, followed by the first locations."""
    if not found:
        return ["  problems           none found"]
    lines = ["  problems"]
    for (noun, rest), finding in found.items():
        lines.append(f"    {counted(finding.count, noun)} {rest}")
        lines += [f"        {location}" for location in finding.examples]
    return lines


def _with_findings(value: Any) -> Any:
    """Returns what `asdict` made, with each `Finding` rebuilt at any depth."""
    if not isinstance(value, dict):
        return value
    if value.keys() == {"count", "examples"}:
        return Finding(**value)
    return {name: _with_findings(inner) for name, inner in value.items()}
