"""The model that is verified: a model folder's engine and weights, the sentences, and their translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import torch
from torch import Tensor

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS, PAD, UNK
from transduce.decoding.scores import Hypothesis
from transduce.engines.torch import TorchEngine, load_model
from transduce.errors import ConfigError
from transduce.model import Transformer
from transduce.verification.sample import Sample

NUM_SPECIAL = UNK + 1  # the last of the special ids


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is looked at, and what may differ.

    In float32, what is the same on paper differs by rounding: 1e-5 in a log-probability is usual, 1e-4 is the most
    that any model of ours showed. A fault (a missing mask, a wrong position) moves it by 0.01 to 10.
    """

    num_sentences: int = 40  # translated
    num_pairs: int = 12  # looked at number by number
    num_changes: int = 6  # positions from which targets are changed, to see whether that shows before
    max_target_tokens: int = 40  # of those pairs
    batch_sizes: tuple[int, ...] = (1, 7, 64)
    log_probability: float = 1e-3  # what the log-probability of one token, or of one line, may differ by
    tie: float = 1e-4  # two outputs whose scores differ by less are as good as each other
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("num_sentences", "num_pairs", "num_changes", "max_target_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}: must be 1 or greater.")
        for name in ("log_probability", "tie"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} = {getattr(self, name)}: must be greater than 0.")


QUICK: dict[str, Any] = {"num_sentences": 16, "num_pairs": 4, "num_changes": 3, "max_target_tokens": 24}


@dataclass(frozen=True)
class Pairs:
    """Sources and targets in ids, EOS last, and what each sentence is called."""

    names: tuple[str, ...]
    sources: tuple[tuple[int, ...], ...]
    targets: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.names)

    def take(self, places: Sequence[int]) -> "Pairs":
        """Returns the pairs at these places, in that order."""
        return Pairs(
            tuple(self.names[place] for place in places),
            tuple(self.sources[place] for place in places),
            tuple(self.targets[place] for place in places),
        )


class ModelUnderTest:
    """One model in one engine, with the sentences that it is verified on."""

    def __init__(self, bundle: Bundle, sample: Sample, engine: TorchEngine, settings: Settings) -> None:
        self.bundle = bundle
        self.sample = sample
        self.engine = engine
        self.settings = settings
        asked = bundle.config.decode
        # The model's own search, but for what leaves the scores of hypotheses no plain sums of log-probabilities.
        self.options = DecodeConfig(
            beam_size=asked.beam_size if asked.beam_size > 1 else 4,
            length_penalty=asked.length_penalty,
            max_extra_tokens=asked.max_extra_tokens,
            batch_size=asked.batch_size,
        )

    @property
    def device(self) -> torch.device:
        """Where the engine works."""
        return self.engine.device

    @cached_property
    def plain(self) -> Transformer:
        """The model as its weights lie on the disk, in evaluation mode: nothing prepacked, nothing converted."""
        return load_model(self.bundle, self.device).eval()

    @cached_property
    def sources(self) -> list[list[int]]:
        """The sentences in ids, without EOS, as far as the model reads."""
        limit = self.engine.max_source_tokens
        return [ids[:limit] for ids in self.bundle.tokenizer.encode_batch(list(self.sample.lines))]

    @cached_property
    def found(self) -> list[list[Hypothesis]]:
        """The n-best list of each sentence, as long as the beam is wide."""
        return self.engine.translate(self.sources, self.options, n_best=self.options.beam_size)

    @cached_property
    def pairs(self) -> Pairs:
        """Some sentences, from the shortest to the longest, with what the model makes of them greedily.

        A target that is too short to look at is lengthened by random tokens, one that is too long is cut.
        """
        by_length = sorted(range(len(self.sources)), key=lambda place: len(self.sources[place]))
        number = min(self.settings.num_pairs, len(by_length))
        last = max(number - 1, 1)
        chosen = [by_length[place * (len(by_length) - 1) // last] for place in range(number)]
        chosen = [place for place in dict.fromkeys(chosen) if self.sources[place]]
        sources = [self.sources[place] for place in chosen]
        greedy = DecodeConfig(beam_size=1, max_extra_tokens=self.options.max_extra_tokens)
        outputs = self.engine.translate(sources, greedy)
        random, limit = Random(self.settings.seed), self.max_target_tokens - 1
        vocabulary = range(NUM_SPECIAL, self.bundle.config.model.vocab_size)
        targets = [[*best.ids, *random.choices(vocabulary, k=max(0, 6 - len(best.ids)))][:limit] for [best] in outputs]
        return Pairs(
            tuple(self.sample.names[place] for place in chosen),
            tuple((*source, EOS) for source in sources),
            tuple((*target, EOS) for target in targets),
        )

    @cached_property
    def max_target_tokens(self) -> int:
        """The longest target, EOS counted, that is looked at number by number."""
        return min(self.settings.max_target_tokens, self.position_limit)

    @property
    def position_limit(self) -> int:
        """The longest sequence, EOS counted, that the model's positions reach."""
        return self.engine.max_source_tokens + 1

    def text(self, ids: Sequence[int]) -> str:
        """Returns ids as text, for the report."""
        return self.bundle.tokenizer.decode(list(ids))

    def random_ids(self, *shape: int) -> Tensor:
        """Returns random ordinary tokens, the same for the same shape."""
        generator = torch.Generator().manual_seed(self.settings.seed)
        vocab_size = self.bundle.config.model.vocab_size
        return torch.randint(NUM_SPECIAL, vocab_size, shape, generator=generator).to(self.device)


def padded(
    sequences: Sequence[Sequence[int]], device: torch.device, width: int = 0, fill: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Returns right-padded ids, (B, T), and their lengths, (B), which lie on the CPU.

    Args:
        sequences: ids, EOS last.
        device: of the ids.
        width: T is at least this.
        fill: (B, T) of what stands in the padding; None for the padding id.
    """
    lengths_B = torch.tensor([len(sequence) for sequence in sequences])
    width = max(width, int(lengths_B.max()))
    ids_BT = torch.full((len(sequences), width), PAD) if fill is None else fill[: len(sequences), :width].cpu().clone()
    for row, sequence in enumerate(sequences):
        ids_BT[row, : len(sequence)] = torch.tensor(sequence)
    return ids_BT.to(device), lengths_B


def forced(model: Transformer, pairs: Pairs, width: int = 0) -> list[Tensor]:
    """Returns the log-probabilities of all tokens at each target position, (T, V) for each pair, in one batch.

    This is the way of training and of forced scoring: whole sequences, padding left out. `width` pads further.
    """
    device = model.source_embedding.device
    source_BS, source_lengths_B = padded(pairs.sources, device, width)
    target_BT, target_lengths_B = padded(pairs.targets, device, width)
    states_ND = model(source_BS, source_lengths_B, target_BT, target_lengths_B)
    lengths = target_lengths_B.tolist()
    return [model.logits(states_TD).log_softmax(dim=-1) for states_TD in states_ND.split(lengths)]
