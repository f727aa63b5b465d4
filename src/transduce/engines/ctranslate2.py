"""The CTranslate2 engine: fast on a CPU, with few bits, and without torch.

This module compensates for differences between CTranslate2's search and ours:

- A call has one length limit. A batch is searched with its greatest limit, and lines that reach their own limit are
  searched again with that limit, so that a translation depends on its own line only.
- A search ends when a number of outputs have finished, regardless of their scores and those of open beams. With K, the
  width of the beam, the best output is lost if K poor ones end early. So it continues to 2 K. All are returned and
  ranked as ours are: by GNMT's formula, finished ones before unfinished ones.
- A suppressed token takes no part in the softmax, which shifts all scores a little. So padding, BOS and unknown are not
  suppressed: a trained model hardly ever writes them. Lines where one occurs are searched again without them.
- Where prefixes, forbidden phrases and the like change its scores, the model's are found (`ctranslate2_ranking`).

`engines/capabilities.py` lists the differences that remain.
"""

import copy
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import ctranslate2

from transduce.bundle import Bundle
from transduce.config import DecodeConfig, ModelConfig
from transduce.config.choices import longest_sequence, reads_source_end
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis
from transduce.engines import batching
from transduce.engines import ctranslate2_forced as forced
from transduce.engines.batching import EMPTY_OUTPUT, NOTHING_FOUND, require_pairs
from transduce.engines.capabilities import CTRANSLATE2, check
from transduce.engines.ctranslate2_batches import Line, Output, line_batches
from transduce.engines.ctranslate2_cache import converted
from transduce.engines.ctranslate2_limits import max_positions
from transduce.engines.ctranslate2_loading import choose_device, compute_type, keep_in_forks, load_model
from transduce.engines.ctranslate2_ranking import ranked
from transduce.engines.ctranslate2_required import search_required
from transduce.engines.interface import MAX_SOURCE_TOKENS, TokenConstraints, require_threads
from transduce.errors import ConfigError, EngineError

if TYPE_CHECKING:
    import numpy as np


# CTranslate2 gives lower scores to forbidden tokens.
_IMPOSSIBLE = -1e8
# Without a length penalty CTranslate2 stops before it has found all outputs. This one is too small to change a rank.
_NO_PENALTY = 1e-6

# Outputs that must finish before a search ends, as a multiple of the beam width; greedy search ends with its first.
_PATIENCE = 2

# On a CPU, batches of more than about 16 sentences cost no less for each: docs/decisions/0021.
_CPU_BATCH_TOKENS, _GPU_BATCH_TOKENS = 512, 1536


class CTranslate2Engine:
    """Runs a converted model in CTranslate2."""

    def __init__(
        self,
        model: ctranslate2.Translator,
        tokens: tuple[Sequence[str], Sequence[str]],
        config: ModelConfig,
        name: str,
        *,
        tags: Collection[int] = (),
        shortlisted: bool = False,
        guided: bool = False,
    ) -> None:
        """Takes a converted model, the names of source and target tokens, and the ids of tags, which no output holds.

        `shortlisted`: use its vocabulary map. `guided`: its aligning head was trained.
        """
        self._model, self.name, self._shortlisted, self._guided = model, name, shortlisted, guided
        self._source_tokens, self._tokens = tokens
        self._process = os.getpid()
        self._divides = True
        keep_in_forks(self, model)
        self._ids = {token: index for index, token in enumerate(self._tokens)}
        self._config, self._positions = config, max_positions(config)
        self.independent_lines = not shortlisted  # a shortlist is that of a whole batch
        self.max_source_tokens = min(MAX_SOURCE_TOKENS, self._positions - 1)
        self.num_workers: int = model.num_translators
        self.batch_tokens = _CPU_BATCH_TOKENS if model.device == "cpu" else _GPU_BATCH_TOKENS
        self.never: Sequence[int] = (*NEVER_GENERATED, *tags)
        self._never_named = [[self._tokens[index]] for index in self.never]

    @classmethod
    def load(
        cls,
        bundle: Bundle,
        device: str = "auto",
        threads: int | None = None,
        quantization: str = "float32",
        *,
        shortlisted: bool = False,
    ) -> Self:
        """Loads the model of `bundle`, and converts it if that was not done before.

        Args:
            bundle: a model folder.
            device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", …
            threads: CPU threads. Each searches a batch of its own. None uses all cores, but no more than 8.
            quantization: the type of the weights and products, one of `QUANTIZATIONS`.
            shortlisted: whether to use the model folder's shortlist. Each call then searches in the union of its lines'
                shortlists, so that a translation may depend on its neighbours, and scores are over that union.

        Raises:
            ConfigError: this machine does not have the device or quantization, or the model cannot be converted.
            BundleError: the model folder is damaged, or has no shortlist.
        """
        require_threads(threads)
        kind, index = choose_device(device)
        numbers = compute_type(quantization, kind, index)
        found: Path | Mapping[str, IO[bytes]] | None = converted(bundle, quantization, shortlisted=shortlisted)
        if found is None:
            from transduce.engines.ctranslate2_model import convert_in_memory
            from transduce.engines.shortlist.table import load_shortlist

            found = convert_in_memory(bundle, quantization, load_shortlist(bundle) if shortlisted else None)
        model = load_model(found, kind, index, numbers, threads)
        shown = kind if kind == "cpu" else f"{kind}:{index}"
        name = f"ctranslate2 on {shown}, {quantization}{', with a shortlist' if shortlisted else ''}"
        tokens = (bundle.tokenizer.tokens(), bundle.tokenizer.target.tokens())
        tags, config = bundle.tokenizer.target.tags.values(), bundle.config.model
        guided = bundle.aligning_heads is not None and bundle.aligning_heads.guided
        return cls(model, tokens, config, name, tags=tags, shortlisted=shortlisted, guided=guided)

    def undivided(self) -> Self:
        """Returns an engine of the same model whose calls are batches: its callers' threads share the cores."""
        engine = copy.copy(self)
        engine._divides = False
        keep_in_forks(engine, self._model)
        return engine

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first: at least one, at most `n_best`.

        Sources are ids without EOS. A source without tokens gives one empty hypothesis without a search; one of more
        than `max_source_tokens` is cut there.

        Raises:
            ConfigError: this engine does not support an option or constraint.
            EngineError: this process was forked after the model was loaded.
        """
        if (lack := CTRANSLATE2.lack(options, constraints or ())) is not None:
            raise ConfigError(lack.refusal)
        self._require_own_process()
        check(options, n_best, constraints, len(sources))
        given = constraints or [TokenConstraints()] * len(sources)
        read = [tuple(source[: self.max_source_tokens]) for source in sources]
        limits = [self._limit(len(ids), options, each) if ids else 0 for ids, each in zip(read, given, strict=True)]
        if any(each.required for each in given):
            return search_required(self, read, options, n_best, given, limits)
        results: list[list[Hypothesis]] = [[EMPTY_OUTPUT] for _ in sources]
        lines = zip(range(len(read)), read, limits, given, strict=True)
        waiting = [line for line in (Line(*each) for each in lines) if line.source]
        while waiting:
            retries, found = [], []
            batches = list(line_batches(waiting, self._batch_size(len(waiting), options)))
            begun = [self._begin(batch, options) for batch in batches]
            for line, search in zip(chain(*batches), chain(*begun), strict=True):
                outputs = self._outputs(search.result(), options, len(line.constraints.start))
                retry = self._retry(line, outputs)
                if retry is not None:
                    retries.append(retry)
                else:
                    found.append((line, outputs))
            best = ranked(self, found, options, n_best, shortlisted=self._shortlisted)
            for (line, _), hypotheses in zip(found, best, strict=True):
                results[line.index] = hypotheses or [NOTHING_FOUND]
            waiting = retries
        return results

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns for each pair the log-probability of each target token, and last that of EOS, given those before.

        A source of more than `max_source_tokens` is cut there, as in `translate`; one without tokens is read as EOS.

        Raises:
            DataError: a target is longer than the model's positions reach.
            EngineError: this process was forked after the model was loaded.
        """
        return forced.scores(self._model, *self._pairs(sources, targets))

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "list[np.ndarray]":
        """Returns for each pair how much each target token comes from each source token, (T, S); see `Engine.align`.

        The targets are forced. The heads were chosen when the model was converted (`aligning_heads`).

        Raises:
            DataError: a target is longer than the model's positions reach.
            EngineError: this process was forked after the model was loaded.
        """
        import numpy as np  # a model that aligns nothing starts faster without it

        found = forced.attention(self._model, *self._pairs(sources, targets), after=self._guided)
        results = [np.zeros((len(target), len(source))) for source, target in zip(sources, targets, strict=True)]
        for wide, weights in zip(results, found, strict=True):
            if weights:
                wide[:, : len(weights[0])] = weights
        return results

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> "np.ndarray":
        """Returns the log-probability of each token after each beginning of a prefix, (T + 1, V).

        Raises:
            DataError: the prefix is longer than the model's positions reach.
            EngineError: this process was forked after the model was loaded.
        """
        [scores_TV] = self.scores_of([source], [prefix], [slice(None)])
        return scores_TV

    def scores_of(
        self,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int] | slice],
    ) -> "list[np.ndarray]":
        """Returns for each pair the log-probability of some tokens after each beginning of the prefix, (T + 1, N).

        Raises:
            DataError: a prefix is longer than the model's positions reach.
            EngineError: this process was forked after the model was loaded.
        """
        return forced.next_scores(self._model, *self._pairs(sources, prefixes), tokens, len(self._tokens))

    def _pairs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> tuple[list[list[str]], list[list[str]]]:
        """Returns the names of the tokens read from each source and each target, where they can be forced."""
        require_pairs(sources, targets, self._positions, "in the ctranslate2 engine this model's positions end at")
        self._require_own_process()
        return (
            [self._source_named(source[: self.max_source_tokens]) for source in sources],
            [self._named(target) for target in targets],
        )

    def _require_own_process(self) -> None:
        """Raises EngineError in a process that was forked from the one that loaded the model, where it would hang."""
        if os.getpid() != self._process:
            raise EngineError(
                "The ctranslate2 engine was loaded before this process was forked, and its threads are not here. Load "
                "the model in this process, or start processes with 'spawn' (multiprocessing.get_context('spawn'))."
            )

    def _limit(self, num_source: int, options: DecodeConfig, constraints: TokenConstraints) -> int:
        """Returns the greatest number of tokens of an output; learned positions lower it, as in the torch engine.

        Raises:
            ConfigError: it is greater than the table of sinusoids.
        """
        last = self._positions - 1 - len(constraints.start)
        limit = batching.output_limit(
            num_source, options, constraints, None if longest_sequence(self._config) is None else last
        )
        if limit > last:
            raise ConfigError(
                f"decode.max_extra_tokens: an output could have {limit} tokens, but in the ctranslate2 engine it ends "
                f"at {last}. Lower the limit, or use the torch engine (--engine torch)."
            )
        return limit

    def _batch_size(self, num_lines: int, options: DecodeConfig) -> int:
        """Returns how many lines go together: fewer than a whole batch if threads would otherwise have no work.

        With a shortlist the batches stay whole: each is searched in the union of its lines' shortlists.
        """
        if self._shortlisted or not self._divides:
            return options.batch_size
        share: int = -(-num_lines // self.num_workers)
        return min(options.batch_size, share)

    def _begin(self, batch: Sequence[Line], options: DecodeConfig) -> list[Any]:
        """Starts the search for lines that go into one call, with the greatest of their limits.

        Waits while the queue of CTranslate2 is full. Returns an object with a `result` for each line.
        """
        first = batch[0]
        suppressed = [self._named(phrase) for phrase in first.constraints.forbidden]
        if first.suppress:
            suppressed += self._never_named
        patience = _PATIENCE if options.beam_size > 1 else 1
        given, num_start = [line.constraints for line in batch], len(first.constraints.start)
        begun: list[Any] = self._model.translate_batch(
            [self._source_named(line.source) for line in batch],
            [self._named((*each.start, *each.prefix)) for each in given] if num_start or given[0].prefix else None,
            beam_size=options.beam_size,
            patience=patience,
            num_hypotheses=patience * options.beam_size,
            length_penalty=options.length_penalty or _NO_PENALTY,
            no_repeat_ngram_size=options.no_repeat_ngram,
            suppress_sequences=suppressed or None,
            use_vmap=self._shortlisted,
            max_input_length=0,
            max_decoding_length=num_start + max(line.limit for line in batch) + 1,  # EOS counts there
            min_decoding_length=num_start + options.min_tokens,
            return_end_token=True,
            return_scores=True,
            asynchronous=True,
        )
        return begun

    def _retry(self, line: Line, outputs: Sequence[Output]) -> Line | None:
        """Returns how the line must be searched again, or None if its outputs are valid.

        If no output reached the line's own limit, the greater limit of its batch made no difference.
        """
        if not line.exact_limit and any(len(output.ids) >= line.limit for output in outputs):
            return replace(line, exact_limit=True)
        if not line.suppress and any(token in output.ids for token in self.never for output in outputs):
            return replace(line, suppress=True)
        return None

    def _source_named(self, ids: Sequence[int]) -> list[str]:
        """Returns the names of a source's tokens; one without any is EOS, which CTranslate2 may not add."""
        read = ids or ([] if reads_source_end(self._config) else [EOS])
        return [self._source_tokens[index] for index in read]

    def _named(self, ids: Sequence[int]) -> list[str]:
        return [self._tokens[index] for index in ids]

    def _outputs(self, found: Any, options: DecodeConfig, num_start: int) -> list[Output]:
        """Returns what CTranslate2 found for a line, after its start, without impossible outputs.

        Their log-probabilities are sums.
        """
        outputs, penalty = [], options.length_penalty or _NO_PENALTY
        for names, score in zip(found.hypotheses, found.scores, strict=True):
            total = score * len(names) ** penalty
            if names and total > _IMPOSSIBLE:
                ids = tuple(self._ids[name] for name in names[num_start:])
                finished = ids[-1] == EOS
                outputs.append(Output(ids[:-1] if finished else ids, finished, total))
        return outputs
