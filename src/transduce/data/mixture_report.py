"""How often training sees each corpus: per epoch, and in all its steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from transduce.config import TrainConfig
from transduce.data.mixture import Mixture
from transduce.reporting.tables import aligned, short, table


@dataclass(frozen=True)
class CorpusShare:
    """How often the steps of a phase see a corpus.

    Attributes:
        from_step: where the phase begins.
        to_step: where it ends.
        name: of the corpus.
        pairs: of the corpus.
        times_an_epoch: how often an epoch has each of its pairs.
        token_share: its share of the target tokens of an epoch.
        times_in_all: how often the steps of the phase see each pair, on average.
    """

    from_step: int
    to_step: int
    name: str
    pairs: int
    times_an_epoch: float
    token_share: float
    times_in_all: float


def corpus_shares(mixture: Mixture, train: TrainConfig, target_tokens_a_batch: float) -> list[CorpusShare]:
    """Returns the shares of each corpus in each phase that `train.max_steps` reaches.

    Args:
        mixture: the corpora and their weights.
        train: `max_steps` says where training ends.
        target_tokens_a_batch: real target tokens of a batch, on average; a plan of any phase gives it.
    """
    begun = [phase for phase in mixture.phases if phase.from_step < train.max_steps]
    ends = [later.from_step for _, later in pairwise(begun)] + [train.max_steps]
    shares = []
    for phase, end in zip(begun, ends, strict=True):
        weights = [float(weight) for weight in phase.weights]
        tokens = [weight * corpus.target_tokens for weight, corpus in zip(weights, mixture.corpora, strict=True)]
        in_an_epoch = max(1.0, sum(tokens))
        epochs = (end - phase.from_step) * target_tokens_a_batch / in_an_epoch
        for corpus, weight, of_corpus in zip(mixture.corpora, weights, tokens, strict=True):
            counts = (weight, of_corpus / in_an_epoch, weight * epochs)
            shares.append(CorpusShare(phase.from_step, end, corpus.name, corpus.num_pairs, *counts))
    return shares


def describe_shares(shares: Sequence[CorpusShare], *, estimated: bool = False) -> str:
    """Returns a table of the shares, or "" for a single corpus that each epoch has once.

    Args:
        shares: of all phases.
        estimated: whether tokens are estimated, as before there are subwords.
    """
    if len({share.name for share in shares}) < 2 and all(share.times_an_epoch == 1 for share in shares):
        return ""
    several = len({share.from_step for share in shares}) > 1
    about = "about " if estimated else ""
    rows = [
        (
            *([f"{share.from_step:,} to {share.to_step:,}"] if several else []),
            share.name,
            f"{share.pairs:,}",
            short(share.times_an_epoch),
            f"{about}{share.token_share:.1%}",
            f"{about}{short(share.times_in_all)}",
        )
        for share in shares
    ]
    header = ("steps", "corpus", "pairs", "times an epoch", "share of target tokens", "times in all steps")
    return aligned(table(header if several else header[1:], rows, text_columns=1 + several))
