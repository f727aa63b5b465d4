"""The PyTorch engine: the reference, on CPU and GPU."""

import contextlib
import os
import threading
from collections.abc import Collection, Sequence
from functools import partial
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.aligning_heads import AligningHeads
from transduce.config.choices import Precision
from transduce.config.special_ids import EOS
from transduce.decoding.ensemble import mean_log_probabilities
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis
from transduce.engines.aligning_heads import heads_or_layer
from transduce.engines.allocator import keep_memory_in_commands
from transduce.engines.batching import EMPTY_OUTPUT, NOTHING_FOUND, SCORE_BATCH, length_batches, require_pairs
from transduce.engines.capabilities import check
from transduce.engines.interface import MAX_SOURCE_TOKENS, AttentionWeights, TokenConstraints, require_threads
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.torch_drafts import DRAFT, Drafts, drafts_of
from transduce.engines.torch_search import Batch, batch_size, last_position, padded, search, search_rounds
from transduce.errors import ConfigError, EngineError
from transduce.model import Transformer, prepack
from transduce.model.attention_maps import attention_maps
from transduce.model.cuda_graphs import GraphDecoder
from transduce.model.device import choose_device

# Rows of logits at a time in forced scoring: 150 MB at the paper's vocabulary.
_MAX_LOGIT_ROWS = 1024


def load_model(bundle: Bundle, device: torch.device | str = "cpu") -> Transformer:
    """Returns the model of a model folder, on `device`, with the weights as they are stored.

    Raises:
        BundleError: see `Bundle.weights`.
    """
    return Transformer.from_weights(bundle.config.model, bundle.weights(), where=str(bundle.path)).to(device)


class TorchEngine:
    """Runs a `Transformer`, or an ensemble of several that share a vocabulary; supports every search."""

    independent_lines = True  # with a shortlist too: each line is searched in its own
    num_workers = 1  # a call uses all threads
    batch_tokens = 1536

    def __init__(
        self,
        model: Transformer,
        precision: Precision = "float32",
        others: Sequence[Transformer] = (),
        shortlist: Shortlist | None = None,
        *,
        heads: AligningHeads | None = None,
        tags: Collection[int] = (),
        record_steps: bool = True,
        prepacking: bool = True,
    ) -> None:
        """Makes an engine of `model` on its device, from a copy of its weights where these are prepacked (`prepack`).

        With `others`, on the same device, the probability of a token is the mean over all models. With a `shortlist`,
        each source is searched in its own part of the vocabulary, and probabilities are over that part; `score` and
        `attend` use the whole vocabulary. `heads` align words; by default, those of `heads_or_layer`. No output holds
        one of the `tags`.

        A command keeps the memory of its peaks from now on: see `keep_memory`. On a GPU, decoding
        steps are recorded as CUDA graphs (`GraphDecoder`), unless TRANSDUCE_CUDA_GRAPHS is 0 in the environment or
        `record_steps` is false, as for an engine that is soon replaced. One that is used once needs no `prepacking`,
        which takes as much memory as the weights, and keeps nothing.
        """
        self.models = [prepack(each, precision) if prepacking else each for each in (model, *others)]
        self.model, self.shortlist = self.models[0], shortlist
        self._never = (*NEVER_GENERATED, *tags)
        self._aligning_heads = heads_or_layer(model.config, heads)
        self.device = next(model.parameters()).device
        self.name = f"torch on {self.device}{'' if precision == 'float32' else f' in {precision}'}"
        self.name += f", {1 + len(others)} models as one" if others else ""
        self.name += ", with a shortlist" if shortlist is not None else ""
        limits = [limit - 1 for each in self.models if (limit := each.source_positions.limit) is not None]
        self.max_source_tokens = min([MAX_SOURCE_TOKENS, *limits])
        if self.device.type == "cpu" and prepacking:
            keep_memory_in_commands()  # after loading and prepacking, whose memory is freed
        # They decode in place of the models, for one search at a time; None: the models decode.
        self.graph_decoders: list[GraphDecoder] | None = None
        self.drafts: Drafts | None = None  # see `use_drafts`
        self._lock = threading.Lock()
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
        draft: Bundle | Literal["self", "blockwise"] | None = None,
    ) -> Self:
        """Loads the model of `bundle`, and those of `others` for an ensemble; see `__init__`.

        `threads` sets PyTorch's CPU threads for the whole process.
        """
        if threads is not None:
            require_threads(threads)
            torch.set_num_threads(threads)
        target = choose_device(device)
        first, *rest = (load_model(each, target) for each in (bundle, *others))
        tags = bundle.tokenizer.target.tags.values()
        engine = cls(first, precision, rest, shortlist, heads=bundle.aligning_heads, tags=tags)
        if draft is not None:
            engine.use_drafts(load_model(draft, target) if isinstance(draft, Bundle) else draft, first, precision)
        return engine

    def use_drafts(
        self, draft: "Transformer | Literal['self', 'blockwise']", plain: Transformer, precision: Precision
    ) -> Drafts:
        """Makes greedy search verify several tokens a pass, which changes no output (`decoding/drafting.py`).

        "self" proposes what came before, "blockwise" what the heads for later tokens say, and a smaller model of the
        same vocabulary what it would write. `plain` is the model as it was before it was prepacked in this precision.
        Returns what can be measured.

        Raises:
            ConfigError: there are several models or a shortlist, or `drafts_of` refuses.
        """
        if len(self.models) > 1 or self.shortlist is not None:
            raise ConfigError(f"{DRAFT}: drafts need one model, without a shortlist.")
        self.drafts = drafts_of(draft, self.model, plain, precision, self._never)
        return self.drafts

    def undivided(self) -> Self:
        """Returns this engine: it never divides a call."""
        return self

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first: at least one, at most `n_best`; draws come in their own order.

        Sources are ids without EOS. A source without tokens gives one empty hypothesis without a search; one of more
        than `max_source_tokens` is cut there.

        Raises:
            ConfigError: this engine does not support an option or constraint.
        """
        check(options, n_best, constraints, len(sources))
        self._enter_process()
        read = [list(source[: self.max_source_tokens]) for source in sources]
        results: list[list[Hypothesis]] = [[] if ids else [EMPTY_OUTPUT] for ids in read]
        batches = length_batches([len(ids) + 1 if ids else 0 for ids in read], batch_size(options, n_best))
        with torch.inference_mode():
            for indices, each in ((indices, each) for indices in batches for each in search_rounds(options, n_best)):
                rows = [index for index in indices for _ in range(each.copies)]
                of_rows = [constraints[index] for index in rows] if constraints is not None else []
                batch = Batch.of([read[index] for index in rows], of_rows, self._never, self.shortlist, self.device)
                with self._lock if self.graph_decoders is not None else contextlib.nullcontext():
                    memories = []
                    for model in self.models:
                        memories.append(model.encode(batch.source_BS, batch.lengths_B))
                    # Made only where it is run: it prepares a cache, which a search with drafts does not use.
                    ordinary = partial(search, batch, self.models, memories, options, each, self.graph_decoders)
                    if self.drafts is None:
                        found = ordinary().run()
                    else:
                        found = self.drafts.run(self.model, batch, memories[0], options, ordinary)
                for index, hypotheses in zip(rows, found, strict=True):
                    part = batch.vocabulary
                    results[index] += hypotheses if part is None else map(part.with_ids, hypotheses)
        return [hypotheses[:n_best] or [NOTHING_FOUND] for hypotheses in results]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns for each pair the log-probability of each target token, and last that of EOS, given those before.

        A source of more than `max_source_tokens` is cut there, as in `translate`; one without tokens is read as EOS.

        Raises:
            DataError: a target is longer than the model's learned positions reach.
        """
        self._require_pairs(sources, targets)
        self._enter_process()
        results: list[list[float]] = [[] for _ in sources]
        lengths = [len(source) + len(target) + 2 for source, target in zip(sources, targets, strict=True)]
        with torch.inference_mode():
            for indices in length_batches(lengths, SCORE_BATCH, max_tokens=None):
                read = [[*sources[index][: self.max_source_tokens], EOS] for index in indices]
                given = [[*targets[index], EOS] for index in indices]
                scores = iter(self._score(read, given))
                for index, target in zip(indices, given, strict=True):
                    results[index] = [next(scores) for _ in target]
        return results

    def attend(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        """Returns the attention weights for one pair, both sides without EOS, which is added to them.

        Of an ensemble, those of its first model.

        Raises:
            DataError: a side is longer than the model's learned positions reach.
        """
        self._enter_process()
        source_BS, lengths_B = padded([[*source, EOS]], self.device)
        target_BT, _ = padded([[*target, EOS]], self.device)
        with torch.inference_mode():
            maps = attention_maps(self.model, source_BS, lengths_B, target_BT)
        kinds = (maps.encoder, maps.decoder, maps.cross)
        return AttentionWeights(*(torch.cat(layers).float().cpu().numpy() for layers in kinds))

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns for each pair how much each target token comes from each source token, (T, S); see `Engine.align`.

        The heads are those of a conversion; of an ensemble, those of its first model.

        Raises:
            DataError: a side is longer than the model's learned positions reach.
        """
        self._require_pairs(sources, targets)
        results = []
        for source, target in zip(sources, targets, strict=True):
            weights = np.zeros((len(target), len(source)))
            if source and target:
                read = source[: self.max_source_tokens]
                chosen = self._aligning_heads
                steps = slice(1, None) if chosen.guided else slice(-1)  # a guided head aligns what was written last
                cross_HTS = self.attend(read, target).cross[chosen.layer, list(chosen.heads), steps, :-1]
                weights[:, : len(read)] = cross_HTS.mean(axis=0)
            results.append(weights)
        return results

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> np.ndarray:
        """Returns the log-probability of each token after each beginning of a prefix, (T + 1, V).

        Raises:
            DataError: the prefix is longer than the model's learned positions reach.
        """
        self._require_pairs([source], [prefix])
        self._enter_process()
        source_BS, lengths_B = padded([[*source[: self.max_source_tokens], EOS]], self.device)
        target_BT, _ = padded([[*prefix, EOS]], self.device)  # the last token is predicted, not read
        with torch.inference_mode():
            logits = [model.decode(model.encode(source_BS, lengths_B), target_BT)[0] for model in self.models]
            gains = [each.log_softmax(dim=-1) for each in logits]
            scores_TV: np.ndarray = mean_log_probabilities(torch.stack(gains)).float().cpu().numpy()
        return scores_TV

    def _require_pairs(self, sources: Sequence[object], targets: Sequence[Sequence[int]]) -> None:
        require_pairs(sources, targets, last_position(self.models), "this model's positions end at")

    def _enter_process(self) -> None:
        """Makes the engine work in a process that was forked after it was loaded.

        PyTorch's threads stayed in the other process, and waiting for them would hang. So one thread does everything
        here, as in the workers of PyTorch's own data loader.

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

    def _score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """Returns the log-probability of each target token, target after target."""
        source_BS, source_lengths_B = padded(sources, self.device)
        target_BT, target_lengths_B = padded(targets, self.device)
        ids_N = torch.tensor([token for target in targets for token in target], device=self.device)
        gains = []
        for model in self.models:
            states_ND = model(source_BS, source_lengths_B, target_BT, target_lengths_B)
            gains.append(_chosen(model, states_ND, ids_N))
        found: list[float] = mean_log_probabilities(torch.stack(gains)).tolist()
        return found


def _chosen(model: Transformer, states_ND: Tensor, ids_N: Tensor) -> Tensor:
    """Returns the log-probability of each of `ids_N`, (N,)."""
    found = []
    for states_RD, ids_R in zip(states_ND.split(_MAX_LOGIT_ROWS), ids_N.split(_MAX_LOGIT_ROWS), strict=True):
        logits_RV = model.logits(states_RD)
        found.append(logits_RV.gather(1, ids_R[:, None])[:, 0] - logits_RV.logsumexp(dim=-1))
    return torch.cat(found)
