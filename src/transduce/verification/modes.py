"""Evaluation mode is deterministic, and training mode without dropout gives the same results."""

from dataclasses import replace

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest, forced

_TRANSLATED = 8


def repeats(tested: ModelUnderTest) -> Finding:
    """Computes everything twice: both must give the same bits."""
    pairs, seen = tested.pairs, Differences()
    for model, what in ((tested.plain, "weights as on disk"), (tested.engine.model, "the engine")):
        names = [f"{what}: {name}" for name in pairs.names]
        seen.compare_sentences(names, forced(model, pairs), forced(model, pairs))
    sources = tested.sources[:_TRANSLATED]
    runs = [tested.engine.translate(sources, tested.options) for _ in range(2)]
    for name, [one], [two] in zip(tested.sample.names, *runs, strict=False):
        seen.add(one.log_probability - two.log_probability, f"{name}, translated twice")
        if one.ids != two.ids:
            seen.faults.append(f"{name}, translated twice: {tested.text(one.ids)!r}, then {tested.text(two.ids)!r}")
    return seen.finding(
        f"{counted(len(pairs), 'sentence')} scored twice, {len(sources)} translated twice, bit for bit", 0.0
    )


def training_mode(tested: ModelUnderTest) -> Finding:
    """Compares training mode with all dropouts at 0 with evaluation mode.

    If the model has dropout, it must also have an effect in training: otherwise the comparison would say little.
    """
    pairs, seen, config = tested.pairs, Differences(), tested.bundle.config.model
    weights = tested.plain.weights()

    def in_training(config: ModelConfig) -> Transformer:
        return Transformer.from_weights(config, weights).to(tested.device).train()

    none = replace(config, dropout=0.0, attention_dropout=0.0, ffn_dropout=0.0)
    evaluated = forced(tested.plain, pairs)
    seen.compare_sentences(pairs.names, forced(in_training(none), pairs), evaluated)
    note = ""
    if config != none:
        dropped = Differences()
        dropped.compare_sentences(pairs.names, forced(in_training(config), pairs), evaluated)
        note = f"with dropout up to {dropped.worst:.3g}"
        if dropped.worst == 0:
            seen.faults.append("dropout is configured, but has no effect in training mode")
    return seen.finding(f"{counted(len(pairs), 'sentence')}, every dropout at 0", tested.settings.log_probability, note)
