"""Text to text: the public face of a trained model.

translator = Translator.load("models/m30k")
translator.translate(["A dog runs."])            # one string for each string
translator.translate_n_best(["A dog runs."], 4)  # several, with scores
translator.attend("A dog runs.")                 # what every head looks at
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import ENGINES, AttendingEngine, Engine
from transduce.errors import ConfigError, DataError, MissingDependencyError, suggestion
from transduce.passages import Handling, treat
from transduce.text import BOS_TOKEN, EOS_TOKEN, SubwordTokenizer, word_of_each

if TYPE_CHECKING:
    import numpy as np

# Lines that `stream` reads ahead for each line of a batch: enough to make batches of one length.
_WINDOW_BATCHES = 32
# A window ends when it has this many characters, whatever the number of its lines: long ones must not fill the memory.
_WINDOW_CHARACTERS = 1 << 22


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of one line."""

    text: str  # never holds a line break "\n", but for those of the source where `Handling.split` cut at them
    score: float  # log-probability over the length penalty; higher is better
    log_probability: float
    tokens: tuple[str, ...]  # the pieces that the model wrote, for the eye
    finished: bool  # False: cut off at the length limit
    source_truncated: bool  # the line was longer than the model reads, and only its beginning was translated
    ids: tuple[int, ...] = ()  # those of `tokens`
    num_parts: int = 1  # sentences, or parts of one, that were translated apart
    warnings: tuple[str, ...] = ()  # what `guard` found, or what went wrong with markup
    confidence: float | None = None  # 0 to 1, of the whole; where it was asked for, as what follows
    calibrated: bool = False  # whether `confidence` is a probability that was fitted to data (`transduce calibrate`)
    words: tuple[tuple[str, float], ...] = ()  # each word with its probability, given those before it
    token_log_probabilities: tuple[float, ...] = ()  # of each token, and of the end of each part


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """What each piece of one pair attends to, in every layer and head: the data of Figures 3 to 5.

    S source and T target pieces, the last of each being "</s>". Layers and heads are array indices here, from 0. A row
    is the piece that looks, a column one that is looked at, and each row sums to 1. The decoder's rows are the pieces
    that it writes; what it looks at are its inputs, each the piece before: "<s>", then all but the last.
    """

    source: str
    target: str
    source_pieces: tuple[str, ...]  # as `SubwordTokenizer.pieces` shows them: "▁" is a space
    target_pieces: tuple[str, ...]
    source_words: tuple[int | None, ...]  # S: the word of `source` that the piece is part of, see `text.words`
    target_words: tuple[int | None, ...]  # T
    encoder: "np.ndarray"  # (layers, heads, S, S), float32
    decoder: "np.ndarray"  # (layers, heads, T, T), float32: row t has weight in columns 0 … t only
    cross: "np.ndarray"  # (layers, heads, T, S), float32
    source_truncated: bool  # longer than the model reads: only the beginning has pieces and weights
    target_truncated: bool

    @property
    def input_pieces(self) -> tuple[str, ...]:
        """What the decoder reads at each position, the columns of `decoder`: T pieces."""
        return (BOS_TOKEN, *self.target_pieces[:-1])


class Translator:
    """Translates lines of text with one model."""

    def __init__(
        self, engine: Engine, tokenizer: SubwordTokenizer, options: DecodeConfig, bundle: Bundle | None = None
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.options = options  # what is used where a call says nothing
        self.bundle = bundle  # the model folder, where it came from one

    @classmethod
    def load(cls, path: str | Path, *, engine: str = "auto", device: str = "auto", threads: int | None = None) -> Self:
        """Loads a model folder.

        Args:
            path: a folder that `transduce train` or `transduce average` wrote.
            engine: "torch", or "auto" for the best that is installed.
            device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", …
            threads: CPU threads of the engine; None leaves its default.

        Raises:
            BundleError: the folder is incomplete or damaged.
            ConfigError: there is no such engine or device.
            MissingDependencyError: the engine is not installed.
        """
        if engine not in ENGINES:
            raise ConfigError(f"There is no engine '{engine}'.{suggestion(engine, ENGINES)} Use 'auto' or 'torch'.")
        bundle = Bundle.load(Path(path))
        return cls(_torch_engine(bundle, device, threads), bundle.tokenizer, bundle.config.decode, bundle)

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_tokens: int | None = None,
        batch_size: int | None = None,
        handling: Handling | None = None,
    ) -> list[str]:
        """Returns one translation for each line, in order; a line of white space gives an empty string.

        A translation depends on its own line only. What is not given comes from the model's configuration.

        Args:
            lines: any strings; a line break inside one is text like any other.
            beam_size: hypotheses looked at side by side; 1 is greedy search, the fastest.
            length_penalty: α of GNMT's length penalty; higher favours longer translations.
            max_extra_tokens: the greatest length of a translation is that of its source plus this.
            batch_size: lines translated together: changes speed and memory, never a translation.
            handling: of long lines, markup and doubtful output; None cuts lines that are longer than the model reads
                into sentences, and does no more.
        """
        options = self.with_options(beam_size, length_penalty, max_extra_tokens, batch_size)
        return [found[0].text for found in self._translate(lines, options, 1, handling)]

    def translate_n_best(
        self,
        lines: Sequence[str],
        n_best: int,
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_tokens: int | None = None,
        batch_size: int | None = None,
        handling: Handling | None = None,
    ) -> list[list[Translation]]:
        """Returns for each line its translations, best first: at least one, at most `n_best`.

        The first is what `translate` returns. `n_best` may not exceed the beam size; for the rest see `translate`.
        """
        options = self.with_options(beam_size, length_penalty, max_extra_tokens, batch_size)
        return self._translate(lines, options, n_best, handling)

    def stream(
        self,
        lines: Iterable[str],
        *,
        options: DecodeConfig | None = None,
        n_best: int = 1,
        window: int | None = None,
        handling: Handling | None = None,
    ) -> Iterator[list[Translation]]:
        """Yields what `translate_n_best` returns, line by line, for input of any length in bounded memory.

        `window` lines are read at a time and translated in batches of similar length; None chooses by batch size.
        """
        if isinstance(lines, str):
            raise TypeError("Give an iterable of lines: for a single one, [line].")
        options = options or self.options
        for chunk in windows(lines, window or self.window_lines(options)):
            yield from self._translate(chunk, options, n_best, handling)

    def window_lines(self, options: DecodeConfig) -> int:
        """Returns how many lines a stream reads ahead, where it is not told."""
        return options.batch_size * _WINDOW_BATCHES

    def attend(self, source: str, target: str | None = None) -> Attention:
        """Returns what every head of every layer attends to in one pair.

        Args:
            source: a line.
            target: its translation, taken as given; None translates first, and looks at that.

        Raises:
            ConfigError: the engine cannot tell its attention weights.
            DataError: the source is empty or white space.
        """
        if not isinstance(self.engine, AttendingEngine):
            raise ConfigError(f"{self.engine.name}: cannot tell its attention weights. Load with engine='torch'.")
        if not source.strip():
            raise DataError("The source is empty: there is nothing to attend to.")
        source_ids = self.tokenizer.encode(source)
        if target is None:
            [[best]] = self.engine.translate([source_ids], self.options)
            target_ids, target = best.ids, self.tokenizer.decode(best.ids).replace("\n", " ")
        else:
            target_ids = self.tokenizer.encode(target)
        limit = self.engine.max_source_tokens  # a learned position table bounds both sides alike
        read, written = source_ids[:limit], target_ids[:limit]
        weights = self.engine.attend(read, written)
        return Attention(
            source=source,
            target=target,
            source_pieces=(*self.tokenizer.pieces(read), EOS_TOKEN),
            target_pieces=(*self.tokenizer.pieces(written), EOS_TOKEN),
            source_words=(*word_of_each(self.tokenizer.piece_bytes(read)), None),
            target_words=(*word_of_each(self.tokenizer.piece_bytes(written)), None),
            encoder=weights.encoder,
            decoder=weights.decoder,
            cross=weights.cross,
            source_truncated=len(source_ids) > limit,
            target_truncated=len(target_ids) > limit,
        )

    def with_options(
        self,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> DecodeConfig:
        """Returns the model's decoding options with those laid over them that are not None."""
        changes: dict[str, Any] = {
            "beam_size": beam_size,
            "length_penalty": length_penalty,
            "max_extra_tokens": max_extra_tokens,
            "batch_size": batch_size,
        }
        return replace(self.options, **{key: value for key, value in changes.items() if value is not None})

    def _translate(
        self, lines: Sequence[str], options: DecodeConfig, n_best: int, handling: Handling | None
    ) -> list[list[Translation]]:
        if isinstance(lines, str):  # a sequence of characters, which is never meant
            raise TypeError("Give a list of lines: for a single one, [line].")
        return treat(self, lines, options, n_best, handling or Handling())

    def search(self, lines: Sequence[str], options: DecodeConfig, n_best: int) -> list[list[Translation]]:
        """Returns the search's own results for each line: what `translate_n_best` returns, without any handling."""
        if not 1 <= n_best <= options.beam_size:
            raise ConfigError(f"n-best = {n_best}: must be at least 1 and at most the beam size, {options.beam_size}.")
        texts = [line if line.strip() else "" for line in lines]
        sources = [ids if text else [] for text, ids in zip(texts, self.tokenizer.encode_batch(texts), strict=True)]
        hypotheses = self.engine.translate(sources, options, n_best)
        outputs = iter(self.tokenizer.decode_batch([h.ids for found in hypotheses for h in found]))
        limit = self.engine.max_source_tokens
        return [
            [self._translation(h, next(outputs), len(source) > limit) for h in found]
            for source, found in zip(sources, hypotheses, strict=True)
        ]

    def _translation(self, hypothesis: Hypothesis, text: str, source_truncated: bool) -> Translation:
        return Translation(
            text=text.replace("\n", " "),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(self.tokenizer.pieces(hypothesis.ids)),
            finished=hypothesis.finished,
            source_truncated=source_truncated,
            ids=tuple(hypothesis.ids),
        )


def windows(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yields lists of at most `size` lines, in order; lists of very long lines are shorter."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == size or characters >= _WINDOW_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _torch_engine(bundle: Bundle, device: str, threads: int | None) -> Engine:
    try:
        from transduce.engines.torch import TorchEngine
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise MissingDependencyError(
            "Translating needs PyTorch, which is not installed here: pip install 'transduce[train]'"
        ) from None
    return TorchEngine.load(bundle, device=device, threads=threads)
