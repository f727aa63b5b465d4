"""The model that is verified: a model folder's engine and weights, the sentences, and their translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import torch
from torch import Tensor

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS, PAD, UNK
from transduce.decoding.scores import NEVER_GENERATED
from transduce.engines.interface import Engine
from transduce.engines.tagged import with_tags
from transduce.engines.torch import TorchEngine, load_model
from transduce.model import Transformer
from transduce.translation.directions import Direction, tag_ids
from transduce.verification.sample import Sample
from transduce.verification.search import Search
from transduce.verification.settings import Settings

NUM_SPECIAL = UNK + 1  # the last of the special ids


@dataclass(frozen=True)
class Pairs:
    """Sources and targets as ids, EOS last, and the names of the sentences."""

    names: tuple[str, ...]
    sources: tuple[tuple[int, ...], ...]
    targets: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.names)

    def select(self, indices: Sequence[int]) -> "Pairs":
        """Returns the pairs at these indices, in that order."""
        return Pairs(
            tuple(self.names[index] for index in indices),
            tuple(self.sources[index] for index in indices),
            tuple(self.targets[index] for index in indices),
        )


@dataclass
class ModelUnderTest:
    """One model in one engine, with the sentences that it is verified on."""

    bundle: Bundle
    sample: Sample
    engine: TorchEngine
    settings: Settings
    direction: Direction

    @cached_property
    def options(self) -> DecodeConfig:
        """The model's own search options, but only those with which a score is a sum of log-probabilities."""
        decode = self.bundle.config.decode
        return DecodeConfig(
            beam_size=decode.beam_size if decode.beam_size > 1 else 4,
            length_penalty=decode.length_penalty,
            max_extra_tokens=decode.max_extra_tokens,
            batch_size=decode.batch_size,
        )

    @property
    def device(self) -> torch.device:
        """The device of the engine."""
        return self.engine.device

    @cached_property
    def plain(self) -> Transformer:
        """The model with the weights as on disk, in evaluation mode: not prepacked, not converted."""
        return load_model(self.bundle, self.device).eval()

    @cached_property
    def tag_ids(self) -> tuple[list[int], list[int]]:
        """The ids of the tags of the direction: in front of each source, and of each target."""
        return tag_ids(self.bundle.tokenizer, self.direction)

    def begun(self, engine: Engine) -> Engine:
        """Returns an engine whose outputs begin with the target's tags, which it leaves out."""
        return with_tags(engine, (), self.tag_ids[1])

    @cached_property
    def sources(self) -> list[list[int]]:
        """The sentences as ids with the tags of the direction, without EOS, cut to what the model reads."""
        limit, tokenizer, tags = self.engine.max_source_tokens, self.bundle.tokenizer, self.tag_ids[0]
        return [[*tags, *ids][:limit] for ids in tokenizer.encode_batch(list(self.sample.lines))]

    @property
    def never_generated(self) -> tuple[int, ...]:
        """The ids that no search writes."""
        return (*NEVER_GENERATED, *self.bundle.tokenizer.target.tags.values())

    @cached_property
    def search(self) -> Search:
        """The engine's search on the sentences."""
        tolerance, tokenizer = self.settings.log_probability, self.bundle.tokenizer.target
        engine = self.begun(self.engine)
        return Search(engine, self.sample.names, self.sources, self.options, tokenizer, self.settings, tolerance)

    @cached_property
    def pairs(self) -> Pairs:
        """Some sentences, from the shortest to the longest, with their greedy translations.

        A target that is too short to check is extended by random tokens, and one that is too long is cut.
        """
        by_length = sorted(range(len(self.sources)), key=lambda index: len(self.sources[index]))
        number = min(self.settings.num_pairs, len(by_length))
        last = max(number - 1, 1)
        chosen = [by_length[index * (len(by_length) - 1) // last] for index in range(number)]
        chosen = [index for index in dict.fromkeys(chosen) if self.sources[index]]
        sources = [self.sources[index] for index in chosen]
        greedy = DecodeConfig(beam_size=1, max_extra_tokens=self.options.max_extra_tokens)
        outputs, begun = self.begun(self.engine).translate(sources, greedy), self.tag_ids[1]
        random, limit = Random(self.settings.seed), self.max_target_tokens - 1
        vocabulary = range(NUM_SPECIAL, self.bundle.config.model.output_vocab_size)
        written = [[*begun, *best.ids] for [best] in outputs]
        targets = [[*ids, *random.choices(vocabulary, k=max(0, 6 - len(ids)))][:limit] for ids in written]
        return Pairs(
            tuple(self.sample.names[index] for index in chosen),
            tuple((*source, EOS) for source in sources),
            tuple((*target, EOS) for target in targets),
        )

    @cached_property
    def max_target_tokens(self) -> int:
        """The longest target of `pairs`, EOS counted."""
        return min(self.settings.max_target_tokens, self.position_limit)

    @property
    def position_limit(self) -> int:
        """The longest sequence, EOS counted, that the model's positions reach."""
        return self.engine.max_source_tokens + 1

    def text(self, ids: Sequence[int]) -> str:
        """Returns ids as text, for the report."""
        return self.bundle.tokenizer.target.decode(list(ids))

    def random_ids(self, *shape: int) -> Tensor:
        """Returns random ordinary tokens, the same for the same shape."""
        generator = torch.Generator().manual_seed(self.settings.seed)
        model = self.bundle.config.model
        vocab_size = min(model.vocab_size, model.output_vocab_size)
        return torch.randint(NUM_SPECIAL, vocab_size, shape, generator=generator).to(self.device)


def padded(
    sequences: Sequence[Sequence[int]], device: torch.device, width: int = 0, fill: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Returns right-padded ids, (B, T), and their lengths, (B), on the CPU.

    Args:
        sequences: ids, EOS last.
        device: of the ids.
        width: T is at least this.
        fill: (B, T), the ids to use as padding; None: the padding id.
    """
    lengths_B = torch.tensor([len(sequence) for sequence in sequences])
    width = max(width, int(lengths_B.max()))
    ids_BT = torch.full((len(sequences), width), PAD) if fill is None else fill[: len(sequences), :width].cpu().clone()
    for row, sequence in enumerate(sequences):
        ids_BT[row, : len(sequence)] = torch.tensor(sequence)
    return ids_BT.to(device), lengths_B


def forced(model: Transformer, pairs: Pairs, width: int = 0) -> list[Tensor]:
    """Returns the log-probabilities of all tokens at each target position, (T, V) for each pair, in one batch.

    As in training and scoring: whole sequences, without their padding. `width` adds padding.
    """
    device = model.source_embedding.device
    source_BS, source_lengths_B = padded(pairs.sources, device, width)
    target_BT, target_lengths_B = padded(pairs.targets, device, width)
    states_ND = model(source_BS, source_lengths_B, target_BT, target_lengths_B)
    lengths = target_lengths_B.tolist()
    return [model.logits(states_TD).log_softmax(dim=-1) for states_TD in states_ND.split(lengths)]
