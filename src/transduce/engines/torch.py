"""The PyTorch engine: the reference, on CPU and GPU."""

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Self

import torch
from torch import Tensor

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.choices import Precision
from transduce.decoding.ensemble import mean_log_probabilities
from transduce.decoding.scores import Hypothesis, SpecialIds
from transduce.engines.allocator import keep_memory
from transduce.engines.interface import MAX_SOURCE_TOKENS, AttentionWeights, TokenConstraints, require_threads
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.torch_search import Batch, check, narrowed, search
from transduce.errors import ConfigError, DataError, EngineError
from transduce.model import Transformer, prepack
from transduce.model.attention_maps import attention_maps
from transduce.model.cuda_graphs import GraphDecoder
from transduce.reporting.tables import counted

# Padded source tokens in a batch: keeps the caches of a batch of very long sentences within memory.
_MAX_BATCH_TOKENS = 8192
# Rows of logits that are made at a time in forced scoring: 150 MB at the paper's vocabulary.
_MAX_LOGIT_ROWS = 1024
# Outputs that are drawn side by side: their probabilities are as many matrices of the vocabulary's width.
_MAX_DRAWN = 512
# Pairs scored together: as many as pay, and few enough for long ones.
_SCORE_BATCH = 32

_SPECIALS = SpecialIds()
_EMPTY = Hypothesis(ids=[], score=0.0, log_probability=0.0, finished=True)
_NOTHING_FOUND = Hypothesis(ids=[], score=-float("inf"), log_probability=-float("inf"), finished=False)


def choose_device(name: str) -> torch.device:
    """Returns the device called `name`; "auto" is the first GPU, or else the CPU.

    Raises:
        ConfigError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device '{name}' cannot be used: {reason} Use 'auto', 'cpu' or 'cuda'.") from None
    return device


def load_model(bundle: Bundle, device: torch.device | str = "cpu") -> Transformer:
    """Returns the model of a model folder, on `device`, with the weights as they are stored.

    Raises:
        BundleError: see `Bundle.weights`.
    """
    return Transformer.from_weights(bundle.config.model, bundle.weights(), where=str(bundle.path)).to(device)


class TorchEngine:
    """Runs a `Transformer`, or several that share a vocabulary as one, with every search there is."""

    def __init__(
        self,
        model: Transformer,
        precision: Precision = "float32",
        others: Sequence[Transformer] = (),
        shortlist: Shortlist | None = None,
        *,
        record_steps: bool = True,
    ) -> None:
        """Makes the engine of `model`, where it is, as its weights are now; see `prepack`. The model stays as it is.

        With `others`, on the same device, the probability of a token is the mean of what all of them give it. With a
        `shortlist`, each source's outputs are searched for in its own part of the vocabulary, and have that part's
        probabilities; `score` and `attend` know nothing of it.

        On a CPU the process keeps, from now on, what memory its peaks have taken: see `keep_memory`. On a GPU, decoding
        steps are recorded as CUDA graphs (`GraphDecoder`), unless TRANSDUCE_CUDA_GRAPHS is 0 in the environment or
        `record_steps` is false, as for an engine that is soon replaced.
        """
        self.model = prepack(model, precision)
        self.others = [prepack(other, precision) for other in others]
        self.precision, self.shortlist = precision, shortlist
        self.device = next(model.parameters()).device
        if self.device.type == "cpu":
            keep_memory()  # after what loading and prepacking let go
        # They take the steps of the models, for one search at a time; None: the models take their own.
        self.graph_decoders: list[GraphDecoder] | None = None
        self._searching = threading.Lock()
        self._process = os.getpid()
        recordable = self.device.type == "cuda" and not any(each.config.attention_window for each in self.models)
        if record_steps and recordable and os.environ.get("TRANSDUCE_CUDA_GRAPHS") != "0":
            self.graph_decoders = [GraphDecoder(each, record=True) for each in self.models]

    @classmethod
    def load(
        cls,
        bundle: Bundle,
        device: str = "auto",
        threads: int | None = None,
        precision: Precision = "float32",
        others: Sequence[Bundle] = (),
        shortlist: Shortlist | None = None,
    ) -> Self:
        """Loads the model of `bundle`, and those of `others` to form an ensemble with it; see `__init__`.

        `threads` sets PyTorch's CPU threads for the whole process.
        """
        if threads is not None:
            require_threads(threads)
            torch.set_num_threads(threads)
        target = choose_device(device)
        first, *rest = (load_model(each, target) for each in (bundle, *others))
        return cls(first, precision, rest, shortlist)

    @property
    def models(self) -> list[Transformer]:
        """The model, or all of an ensemble."""
        return [self.model, *self.others]

    @property
    def name(self) -> str:
        """The engine and the device that it works on, for messages."""
        precision = "" if self.precision == "float32" else f" in {self.precision}"
        ensemble = f", {len(self.models)} models as one" if self.others else ""
        shortlist = ", with a shortlist" if self.shortlist is not None else ""
        return f"torch on {self.device}{precision}{ensemble}{shortlist}"

    @property
    def max_source_tokens(self) -> int:
        """Tokens of a source beyond this many are not read; a learned position table may lower it."""
        limits = [limit - 1 for model in self.models if (limit := model.source_positions.limit) is not None]
        return min([MAX_SOURCE_TOKENS, *limits])

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        conditions: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first: at least one, at most `n_best`; what is drawn comes as drawn.

        Sources are ids without EOS. They are sorted by length into batches, and results put back in order. A
        source without tokens gives one empty hypothesis and is not run; one of more than `max_source_tokens`
        is cut there.

        Raises:
            ConfigError: an option or condition is not one that this engine can honour.
        """
        check(options, n_best, conditions, len(sources))
        self._enter_process()
        results: list[list[Hypothesis]] = [[_EMPTY] for _ in sources]
        batch_size = (
            min(options.batch_size, max(1, _MAX_DRAWN // n_best)) if options.temperature else options.batch_size
        )
        with torch.inference_mode():
            for places in self._batches(sources, batch_size):
                read = [list(sources[place][: self.max_source_tokens]) for place in places]
                source_BS, lengths_B = _pad([[*ids, _SPECIALS.eos] for ids in read], self.device)
                asked = None if conditions is None else [conditions[place] for place in places]
                batch = Batch(read, source_BS, lengths_B, asked)
                if self.shortlist is not None:
                    batch = narrowed(batch, self.shortlist)
                for place, found in zip(places, self._search(batch, options, n_best), strict=True):
                    results[place] = found or [_NOTHING_FOUND]
        return results

    def _search(self, batch: Batch, options: DecodeConfig, n_best: int) -> list[list[Hypothesis]]:
        if options.temperature and n_best > _MAX_DRAWN:
            shares = [(first, min(_MAX_DRAWN, n_best - first)) for first in range(0, n_best, _MAX_DRAWN)]
            drawn = [self._search_once(batch, options, count, first) for first, count in shares]
            return [[each for share in of_source for each in share] for of_source in zip(*drawn, strict=True)]
        return self._search_once(batch, options, n_best)

    def _search_once(
        self, batch: Batch, options: DecodeConfig, n_best: int, first_draw: int = 0
    ) -> list[list[Hypothesis]]:
        if self.graph_decoders is None:
            return search(self.models, batch, options, n_best, first_draw=first_draw)
        with self._searching:
            return search(self.models, batch, options, n_best, self.graph_decoders, first_draw=first_draw)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns for each pair the log-probability of each target token, and last that of EOS, given those before.

        A source of more than `max_source_tokens` is cut there, as in `translate`; one without tokens is read as EOS.

        Raises:
            DataError: a target is longer than the model's learned positions reach.
        """
        if len(sources) != len(targets):
            raise DataError(
                f"{counted(len(sources), 'source')} and {counted(len(targets), 'target')}: give one for each."
            )
        self._check_targets(targets)
        self._enter_process()
        results: list[list[float]] = [[] for _ in sources]
        places = sorted(range(len(sources)), key=lambda p: -(len(sources[p]) + len(targets[p])))
        with torch.inference_mode():
            for start in range(0, len(places), _SCORE_BATCH):
                batch = places[start : start + _SCORE_BATCH]
                read = [[*sources[place][: self.max_source_tokens], _SPECIALS.eos] for place in batch]
                given = [[*targets[place], _SPECIALS.eos] for place in batch]
                scores = iter(self._score(read, given))
                for place, target in zip(batch, given, strict=True):
                    results[place] = [next(scores) for _ in target]
        return results

    def attend(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        """Returns the attention weights for one pair, both sides without EOS, which is added to them.

        Of an ensemble, those of its first model.

        Raises:
            DataError: a side is longer than the model's learned positions reach.
        """
        self._enter_process()
        source_BS, lengths_B = _pad([[*source, _SPECIALS.eos]], self.device)
        target_BT, _ = _pad([[*target, _SPECIALS.eos]], self.device)
        with torch.inference_mode():
            maps = attention_maps(self.model, source_BS, lengths_B, target_BT)
        encoder, decoder, cross = (
            torch.cat(layers).float().cpu().numpy() for layers in (maps.encoder, maps.decoder, maps.cross)
        )
        return AttentionWeights(encoder, decoder, cross)

    def _enter_process(self) -> None:
        """Makes the engine work in a process that was forked after it was made.

        PyTorch's threads stayed in the other process, and whoever waits for them here hangs: so one thread does all, as
        in the workers of PyTorch's own data loader.

        Raises:
            EngineError: the model is on a GPU, which a forked process cannot use.
        """
        if os.getpid() == self._process:
            return
        if self.device.type != "cpu":
            raise EngineError(
                f"The model was loaded onto {self.device} before this process was forked, which cannot use it. "
                "Start the process with 'spawn' (multiprocessing.get_context('spawn')), and load the model there."
            )
        torch.set_num_threads(1)
        self._process = os.getpid()

    def _check_targets(self, targets: Sequence[Sequence[int]]) -> None:
        limits = [limit for model in self.models if (limit := model.target_positions.limit) is not None]
        for number, target in enumerate(targets, start=1):
            if limits and len(target) + 1 > min(limits):
                raise DataError(
                    f"target {number} has {len(target)} tokens, "
                    f"but this model's learned positions end at {min(limits) - 1}."
                )

    def _score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """Returns the log-probability of each target token, target after target."""
        source_BS, source_lengths_B = _pad(sources, self.device)
        target_BT, target_lengths_B = _pad(targets, self.device)
        ids_N = torch.tensor([token for target in targets for token in target], device=self.device)
        gains = []
        for model in self.models:
            states_ND = model(source_BS, source_lengths_B, target_BT, target_lengths_B)
            gains.append(_chosen(model, states_ND, ids_N))
        total_N = gains[0] if len(gains) == 1 else mean_log_probabilities(torch.stack(gains))
        found: list[float] = total_N.tolist()
        return found

    def _batches(self, sources: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
        """Yields places of sources of similar length, longest first: what needs most memory fails at once."""
        places = sorted((p for p, s in enumerate(sources) if s), key=lambda p: -len(sources[p]))
        start = 0
        while start < len(places):
            longest = min(len(sources[places[start]]), self.max_source_tokens) + 1
            count = max(1, min(batch_size, _MAX_BATCH_TOKENS // longest))
            yield places[start : start + count]
            start += count


def _chosen(model: Transformer, states_ND: Tensor, ids_N: Tensor) -> Tensor:
    """Returns the log-probability of each of `ids_N`, (N,)."""
    found = []
    for states_RD, ids_R in zip(states_ND.split(_MAX_LOGIT_ROWS), ids_N.split(_MAX_LOGIT_ROWS), strict=True):
        logits_RV = model.logits(states_RD)
        found.append(logits_RV.gather(1, ids_R[:, None])[:, 0] - logits_RV.logsumexp(dim=-1))
    return torch.cat(found)


def _pad(sequences: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns the sequences, padded, on `device`, and their lengths on the CPU, where the model wants them."""
    lengths = [len(sequence) for sequence in sequences]
    padded = [sequence + [_SPECIALS.pad] * (max(lengths) - len(sequence)) for sequence in sequences]
    return torch.tensor(padded, device=device), torch.tensor(lengths)
