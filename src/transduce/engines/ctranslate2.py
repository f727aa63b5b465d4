"""The CTranslate2 engine: fast on a CPU, with small numbers, and without torch.

What CTranslate2 does otherwise than our own search is evened out here:

- its length limit is one for a whole call. A batch is searched with its greatest limit, and lines that reach their own
  are searched again with that, so that a translation depends on its own line only;
- a search ends when so many outputs have finished, whatever their scores and those of what is open. With K, the width
  of the beam, the best is lost where K poor ones end early; so it goes on to 2 K. All are returned, and ranked as ours
  are: by GNMT's formula, finished ones before those that were cut off;
- a suppressed token takes no part in its softmax, which shifts all scores a little. So padding, BOS and unknown are
  left free, which a trained model practically never writes, and lines where one turns up are searched without them;
- where something else bends its scores (prefixes, forbidden phrases, …), outputs are scored anew.

What cannot be evened out stands in `engines/capabilities.py`.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import ctranslate2

from transduce.bundle import Bundle
from transduce.config import DecodeConfig, ModelConfig
from transduce.config.choices import learns_positions
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis, hypothesis
from transduce.engines.batching import (
    EMPTY_OUTPUT,
    NOTHING_FOUND,
    SCORE_BATCH,
    length_batches,
    output_limit,
    require_pairs,
)
from transduce.engines.capabilities import CTRANSLATE2
from transduce.engines.ctranslate2_cache import converted
from transduce.engines.ctranslate2_limits import max_positions
from transduce.engines.ctranslate2_loading import choose_device, compute_type, keep_in_forks, load_model
from transduce.engines.interface import MAX_SOURCE_TOKENS, TokenConstraints, require_threads
from transduce.errors import ConfigError, DataError, EngineError

if TYPE_CHECKING:
    from transduce.engines.shortlist.table import Shortlist

# Rows of logits of pairs that are scored together: 300 MB at the paper's vocabulary.
_MAX_LOGIT_ROWS = 2048
# Scores below are CTranslate2's for what it was forbidden to write.
_IMPOSSIBLE = -1e8
# Without a length penalty CTranslate2 stops earlier, where not all outputs have been found. This one moves no rank.
_NO_PENALTY = 1e-6

# Outputs that must finish, for each of the beam's width, before a search ends; greedy search ends with its first.
_PATIENCE = 2

_UNCONSTRAINED = TokenConstraints()


@dataclass(frozen=True, slots=True)
class _Line:
    """One source to search outputs for, and how."""

    index: int  # among the sources
    source: tuple[int, ...]
    limit: int  # tokens of its longest output, EOS not counted
    constraints: TokenConstraints
    alone: bool = False  # with others of the same limit only
    suppress: bool = False  # pad, BOS and unknown may not even be looked at

    @property
    def batch_key(self) -> tuple[Any, ...]:
        """Lines that differ in it cannot be searched in one call."""
        limit = self.limit if self.alone else 0
        return (limit, self.suppress, len(self.constraints.prefix), self.constraints.forbidden)


@dataclass(frozen=True, slots=True)
class _Output:
    """What a search returned: ids without EOS."""

    ids: list[int]
    finished: bool
    log_probability: float


class CTranslate2Engine:
    """Runs a converted model in CTranslate2."""

    def __init__(
        self,
        model: ctranslate2.Translator,
        tokens: Sequence[str],
        config: ModelConfig,
        name: str,
        *,
        shortlisted: bool = False,
    ) -> None:
        """Takes a converted model with the names of its tokens, and whether to use its vocabulary map; see `load`."""
        self._model, self._tokens, self._name, self._shortlisted = model, list(tokens), name, shortlisted
        self._process = os.getpid()
        keep_in_forks(self, model)
        self._ids = {token: index for index, token in enumerate(tokens)}
        self._config, self._positions = config, max_positions(config)
        self._never = [[tokens[index]] for index in NEVER_GENERATED]

    @classmethod
    def load(
        cls,
        bundle: Bundle,
        device: str = "auto",
        threads: int | None = None,
        quantization: str = "float32",
        shortlist: "Shortlist | None" = None,
    ) -> Self:
        """Loads the model of `bundle`, converted where that was not done before.

        Args:
            bundle: a model folder.
            device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", …
            threads: CPU threads: as many batches are searched side by side, each by one. None takes all cores, but no
                more than 8.
            quantization: the numbers to compute with, one of `QUANTIZATIONS`.
            shortlist: each call then searches in the union of its lines' shortlists, so that a translation may depend
                on its neighbours, and scores are over that union.

        Raises:
            ConfigError: there is no such device or quantization here, or the model cannot be converted.
            BundleError: the model folder is damaged.
        """
        require_threads(threads)
        kind, index = choose_device(device)
        numbers = compute_type(quantization, kind, index)
        found = converted(bundle, quantization, shortlist)
        if found is None:
            from transduce.engines.ctranslate2_model import convert_in_memory

            model = load_model(convert_in_memory(bundle, quantization, shortlist), kind, index, numbers, threads)
        else:
            model = load_model(found, kind, index, numbers, threads)
        shown = kind if kind == "cpu" else f"{kind}:{index}"
        name = f"ctranslate2 on {shown}, {quantization}{', with a shortlist' if shortlist is not None else ''}"
        tokens = bundle.tokenizer.tokens()
        return cls(model, tokens, bundle.config.model, name, shortlisted=shortlist is not None)

    @property
    def name(self) -> str:
        """The engine, the device that it works on and its numbers, for messages."""
        return self._name

    @property
    def independent_lines(self) -> bool:
        """Whether a translation depends on its own line only: a shortlist is that of a whole batch."""
        return not self._shortlisted

    @property
    def max_source_tokens(self) -> int:
        """Tokens of a source beyond this many are not read; a learned position table may lower it."""
        return min(MAX_SOURCE_TOKENS, self._positions - 1)

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first: at least one, at most `n_best`.

        Sources are ids without EOS. They are sorted by length into batches, and results put back in order. A source
        without tokens gives one empty hypothesis; one of more than `max_source_tokens` is cut there.

        Raises:
            ConfigError: an option or condition is not one that this engine can honour.
            EngineError: this process was forked after the model was loaded.
        """
        if n_best > options.beam_size:
            raise ConfigError(f"n-best = {n_best}: must be at most the beam size, {options.beam_size}.")
        if (lack := CTRANSLATE2.lack(options, constraints or ())) is not None:
            raise ConfigError(lack.refusal)
        self._require_own_process()
        results: list[list[Hypothesis]] = [[EMPTY_OUTPUT] for _ in sources]
        waiting = list(self._lines(sources, options, constraints))
        while waiting:
            again = []
            batches = list(_batches(waiting, self._batch_size(len(waiting), options)))
            begun = [self._begin(batch, options) for batch in batches]
            for line, search in zip(chain(*batches), chain(*begun), strict=True):
                outputs = self._outputs(search.result(), options)
                harder = self._again(line, outputs)
                if harder is not None:
                    again.append(harder)
                else:
                    results[line.index] = self._ranked(line, outputs, options)[:n_best] or [NOTHING_FOUND]
            waiting = again
        return results

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns for each pair the log-probability of each target token, and last that of EOS, given those before.

        A source of more than `max_source_tokens` is cut there, as in `translate`; one without tokens is read as EOS.

        Raises:
            DataError: a target is longer than the model's positions reach.
            EngineError: this process was forked after the model was loaded.
        """
        require_pairs(sources, targets)
        self._require_own_process()
        for number, target in enumerate(targets, start=1):
            if len(target) + 1 > self._positions:
                raise DataError(
                    f"target {number} has {len(target)} tokens, but this model's positions end at "
                    f"{self._positions - 1} in the ctranslate2 engine."
                )
        batches = list(length_batches([len(target) + 1 for target in targets], SCORE_BATCH, _MAX_LOGIT_ROWS))
        begun: list[Any] = []
        for batch in batches:
            begun += self._model.score_batch(
                [self._named(sources[index][: self.max_source_tokens]) for index in batch],
                [self._named(targets[index]) for index in batch],
                max_input_length=0,
                asynchronous=True,
            )
        results: list[list[float]] = [[] for _ in sources]
        for index, scores in zip(chain(*batches), begun, strict=True):
            results[index] = list(scores.result().log_probs)
        return results

    def _require_own_process(self) -> None:
        """Raises EngineError in a process that was forked from the one that loaded the model, where it would hang."""
        if os.getpid() != self._process:
            raise EngineError(
                "The ctranslate2 engine was loaded before this process was forked, and its threads are not here. Load "
                "the model in this process, or start processes with 'spawn' (multiprocessing.get_context('spawn'))."
            )

    def _lines(
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, constraints: Sequence[TokenConstraints] | None
    ) -> Iterator[_Line]:
        """Yields the lines that are to be searched, each with its own limit.

        Raises:
            ConfigError: a limit is beyond the positions that sinusoids are written down for.
        """
        for index, source in enumerate(sources):
            if source:
                read = tuple(source[: self.max_source_tokens])
                given = constraints[index] if constraints is not None else _UNCONSTRAINED
                yield _Line(index, read, self._within_reach(*output_limit(len(read), options, given)), given)

    def _within_reach(self, limit: int, least: int) -> int:
        """Returns the limit that the positions allow, which learned ones lower, as they do in the torch engine."""
        last = self._positions - 1
        if least > last:
            raise ConfigError(f"an output of at least {least} tokens: this model's positions end at {last}.")
        if limit > last and not learns_positions(self._config):
            raise ConfigError(
                f"decode.max_extra_tokens: an output could have {limit} tokens, but in the ctranslate2 engine it ends "
                f"at {last}. Lower the limit, or use the torch engine (--engine torch)."
            )
        return min(limit, last)

    def _batch_size(self, num_lines: int, options: DecodeConfig) -> int:
        """Returns how many lines go together: less than a whole batch where there would be nothing beside it.

        With a shortlist that cannot be: there a batch is what its lines say together.
        """
        if self._shortlisted:
            return options.batch_size
        share: int = -(-num_lines // self._model.num_translators)
        return min(options.batch_size, share)

    def _begin(self, batch: Sequence[_Line], options: DecodeConfig) -> list[Any]:
        """Begins to search lines that can be searched in one call, with the greatest of their limits.

        Waits while CTranslate2 has batches enough; what it returns has a `result` for each line.
        """
        first = batch[0]
        suppressed = [self._named(phrase) for phrase in first.constraints.forbidden]
        if first.suppress:
            suppressed += self._never
        patience = _PATIENCE if options.beam_size > 1 else 1
        begun: list[Any] = self._model.translate_batch(
            [self._named(line.source) for line in batch],
            [self._named(line.constraints.prefix) for line in batch] if first.constraints.prefix else None,
            beam_size=options.beam_size,
            patience=patience,
            num_hypotheses=patience * options.beam_size,
            length_penalty=options.length_penalty or _NO_PENALTY,
            no_repeat_ngram_size=options.no_repeat_ngram,
            suppress_sequences=suppressed or None,
            use_vmap=self._shortlisted,
            max_input_length=0,
            max_decoding_length=max(line.limit for line in batch) + 1,  # EOS counts there
            min_decoding_length=options.min_tokens,
            return_end_token=True,
            return_scores=True,
            asynchronous=True,
        )
        return begun

    def _outputs(self, found: Any, options: DecodeConfig) -> list[_Output]:
        penalty = options.length_penalty or _NO_PENALTY
        return [
            self._output(tokens, score * len(tokens) ** penalty)
            for tokens, score in zip(found.hypotheses, found.scores, strict=True)
            if tokens and score > _IMPOSSIBLE
        ]

    def _output(self, tokens: list[str], log_probability: float) -> _Output:
        ids = [self._ids[token] for token in tokens]
        finished = ids[-1] == EOS
        return _Output(ids[:-1] if finished else ids, finished, log_probability)

    def _again(self, line: _Line, outputs: Sequence[_Output]) -> _Line | None:
        """Returns how the line must be searched once more, or None where these outputs are what it has.

        The longest output shows when the search ended. Below the limit, the limit played no part.
        """
        if not line.alone and any(len(output.ids) >= line.limit for output in outputs):
            return replace(line, alone=True)
        if not line.suppress and any(not set(o.ids).isdisjoint(NEVER_GENERATED) for o in outputs):
            return replace(line, suppress=True)
        return None

    def _ranked(self, line: _Line, outputs: Sequence[_Output], options: DecodeConfig) -> list[Hypothesis]:
        """Returns the finished outputs, best first; where there are none, what was open at the limit."""
        finished = [output for output in outputs if output.finished]
        if finished:
            if self._bends_scores(line, options):
                scores = self.score([line.source] * len(finished), [output.ids for output in finished])
                finished = [replace(o, log_probability=sum(s)) for o, s in zip(finished, scores, strict=True)]
        else:
            # One token too many: the last step was there for EOS. What differed in that alone becomes one.
            cut = list(dict.fromkeys(tuple(output.ids[: line.limit]) for output in outputs))
            scores = self.score([line.source] * len(cut), cut)
            finished = [_Output(list(ids), False, sum(s[:-1])) for ids, s in zip(cut, scores, strict=True)]
        ranked = [hypothesis(o.ids, o.log_probability, o.finished, options.length_penalty) for o in finished]
        return sorted(ranked, key=lambda h: -h.score)  # stable: of equals, CTranslate2's order

    def _bends_scores(self, line: _Line, options: DecodeConfig) -> bool:
        constraints = line.constraints
        return bool(
            line.suppress
            or constraints.prefix
            or constraints.forbidden
            or options.no_repeat_ngram
            or options.min_tokens
        )

    def _named(self, ids: Sequence[int]) -> list[str]:
        return [self._tokens[index] for index in ids]


def _batches(lines: Sequence[_Line], batch_size: int) -> Iterator[list[_Line]]:
    """Yields lines of similar length that can go together, longest first."""
    groups: dict[tuple[Any, ...], list[_Line]] = {}
    for line in sorted(lines, key=lambda line: -len(line.source)):
        groups.setdefault(line.batch_key, []).append(line)
    for group in groups.values():
        for batch in length_batches([len(line.source) + 1 for line in group], batch_size):
            yield [group[index] for index in batch]
