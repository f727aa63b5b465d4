"""What `prepare` did and found: as JSON for programs, as text for people."""

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from transduce.data.doctor import Examination, Finding, Findings, describe
from transduce.data.encoding import EncodedSplit


@dataclass
class EpochReport:
    """What one pass over the training pairs comes to at the configured budgets.

    Attributes:
        source_budget: tokens a batch may have on the source side, padding counted.
        target_budget: the same on the target side.
        num_batches: of an epoch.
        source_padding_share: padded positions of all source positions.
        target_padding_share: the same of the target.
        padding_share: of both together.
    """

    source_budget: int
    target_budget: int
    num_batches: int
    source_padding_share: float
    target_padding_share: float
    padding_share: float


@dataclass
class PrepareReport:
    """The outcome of `prepare`.

    Attributes:
        folder: what was prepared.
        tokenizer: algorithm, vocabulary size asked for and reached, fingerprint.
        findings: what the doctor saw in the text.
        train: the training split.
        validation: the validation split, if there is one.
        held_out_pairs: pairs in the validation set and in each test set.
        epoch: what an epoch will cost.
        seconds: taken by each stage.
        reused: whether the folder was found prepared, and nothing was done.
    """

    folder: str
    tokenizer: dict[str, Any]
    findings: Findings
    train: EncodedSplit
    validation: EncodedSplit | None
    held_out_pairs: dict[str, int]
    epoch: EpochReport
    seconds: dict[str, float] = field(default_factory=dict)
    reused: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain dicts, lists and scalars."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PrepareReport":
        """Rebuilds a report that `to_dict` made."""
        validation = values["validation"]
        return cls(
            **(
                values
                | {
                    "findings": _findings(values["findings"]),
                    "train": _split(values["train"]),
                    "validation": _split(validation) if validation else None,
                    "epoch": EpochReport(**values["epoch"]),
                }
            )
        )

    def __str__(self) -> str:
        train, epoch, tokenizer = self.train, self.epoch, self.tokenizer
        lines = [
            f"{self.folder}: " + ("already prepared, nothing to do" if self.reused else "prepared"),
            f"  training pairs     {_number(train.num_kept)} kept of {_number(train.num_read)}",
        ]
        if self.validation:
            lines.append(f"  validation pairs   {_number(self.validation.num_kept)}")
        for name, count in self.held_out_pairs.items():
            if name != "validation":
                lines.append(f"  {name + ' pairs':<18} {_number(count)}, compared for leaks only")
        size = _number(tokenizer["vocab_size"])
        if tokenizer["vocab_size"] < tokenizer["vocab_size_asked"]:
            size += f" ({_number(tokenizer['vocab_size_asked'])} were asked for: the text has no more)"
        lines += [
            f"  tokenizer          {tokenizer['algorithm']}, {size} pieces, {tokenizer['fingerprint'][:12]}",
            f"  tokens an epoch    {_number(train.source_tokens)} source, {_number(train.target_tokens)} target; "
            f"a sentence has {train.source_tokens / max(1, train.num_kept):.1f} and "
            f"{train.target_tokens / max(1, train.num_kept):.1f}",
            f"  batches an epoch   {_number(epoch.num_batches)} of at most {_number(epoch.source_budget)} source "
            f"and {_number(epoch.target_budget)} target tokens; {epoch.padding_share:.1%} padding",
        ]
        found = describe(self.findings)
        if train.over_long.count:
            found["training pairs longer than data.max_tokens (dropped)"] = train.over_long
        if train.odd_ratio.count:
            found["training pairs with lengths beyond data.max_ratio (dropped)"] = train.odd_ratio
        return "\n".join(lines + describe_lines(found))


def describe_examination(examination: Examination) -> str:
    """Returns what the doctor saw, before anything was encoded."""
    kept = int(examination.kept.sum())
    lines = [f"training pairs     {_number(kept)} kept of {_number(len(examination.kept))}"]
    lines += [f"{name + ' pairs':<18} {_number(count)}" for name, count in examination.num_held_out.items()]
    lines += [line.removeprefix("  ") for line in describe_lines(describe(examination.findings))]
    return "\n".join(lines)


def describe_lines(found: dict[str, Finding]) -> list[str]:
    """Returns a line for each finding, with the first places where it was seen."""
    if not found:
        return ["  found              nothing amiss"]
    lines = ["  found"]
    for phrase, finding in found.items():
        lines.append(f"    {_number(finding.count)} {phrase if finding.count != 1 else _of_one(phrase)}")
        lines += [f"        {place}" for place in finding.examples]
    return lines


def _of_one(phrase: str) -> str:
    """Returns the phrase of a finding for a single line or pair: "training pair that repeats an earlier pair"."""
    for many, one in (("pairs", "pair"), ("lines", "line"), ("that are", "that is")):
        phrase = phrase.replace(many, one, 1)
    return re.sub(r"that (repeat|stand)\b", r"that \1s", phrase)


def _number(value: int) -> str:
    return f"{value:,}"


def _findings(values: dict[str, Any]) -> Findings:
    def rebuild(value: dict[str, Any]) -> Any:
        if value.keys() == {"count", "examples"}:
            return Finding(**value)
        return {name: Finding(**finding) for name, finding in value.items()}

    return Findings(**{name: rebuild(value) for name, value in values.items()})


def _split(values: dict[str, Any]) -> EncodedSplit:
    over_long, odd_ratio = Finding(**values["over_long"]), Finding(**values["odd_ratio"])
    return EncodedSplit(**(values | {"over_long": over_long, "odd_ratio": odd_ratio}))
