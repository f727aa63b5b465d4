"""Text to text: the public face of a trained model.

translator = Translator.load("models/m30k")
translator.translate(["A dog runs."])            # one string for each string
translator.translate_n_best(["A dog runs."], 4)  # several, with scores
translator.score(["A dog runs."], ["Ein Hund läuft."])  # what the model thinks of a given translation
translator.attend("A dog runs.")                 # what every head looks at
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, Self, Unpack

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.loading import with_decode_options
from transduce.config.schema import DecodeOptions
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import AttendingEngine, Engine
from transduce.engines.loading import checksums_of, choose_engine, load_engine, require_engine, uses_shortlist
from transduce.errors import BundleError, ConfigError, DataError
from transduce.text import EOS_TOKEN, SubwordTokenizer, word_of_each
from transduce.translation.constraints.forced_terms import forced_terms, warnings_of_forced
from transduce.translation.constraints.glossary import Glossary, GlossaryLike, glossary_of
from transduce.translation.constraints.search import (
    Constraints,
    apart,
    constraints_of,
    refusal,
    search_within,
    with_terms,
)
from transduce.translation.constraints.terms import Choice, outcome, warnings_of
from transduce.translation.forced_scores import TargetScore, score_targets
from transduce.translation.pipeline import Handling, treat
from transduce.translation.result import Attention, Translation
from transduce.translation.windows import windows

# Lines that `stream` reads ahead for each line of a batch: enough to make batches of one length.
_WINDOW_BATCHES = 32


class Translator:
    """Translates lines of text with one model."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        options: DecodeConfig,
        bundle: Bundle | None = None,
        checksums: Mapping[str, str] | None = None,
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.options = options  # what is used where a call says nothing
        self.bundle = bundle  # the model folder, where it came from one
        self.checksums = dict(checksums or {})  # SHA-256 of each file that translations depend on, by names for people

    def __repr__(self) -> str:
        model = f"{self.bundle.summary}, " if self.bundle is not None else ""
        return f"Translator({model}{self.engine.name})"

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        engine: str = "auto",
        device: str = "auto",
        threads: int | None = None,
        quantization: str | None = None,
        ensemble: Sequence[str | Path] = (),
        shortlist: str = "off",
    ) -> Self:
        """Loads a model folder.

        Args:
            path: a folder that `transduce train` or `transduce average` wrote.
            engine: "torch" (the reference), "ctranslate2" (small, quick to start; needs no torch), or "auto". That is
                torch on a GPU. On a CPU it is ctranslate2, and torch, loaded by the first call that needs it, for what
                ctranslate2 cannot do: docs/guides/engines.md.
            device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", …
            threads: CPU threads of the engine; None leaves its default.
            quantization: the numbers to compute with, such as "int8"; None is float32. The ctranslate2 engine converts
                the model on first use, into a folder beside the model's files.
            ensemble: folders of more models, of the same vocabulary, that translate together with this one; torch only.
            shortlist: "on" searches in the pieces that can translate those of the source only (`transduce shortlist`
                learns which); "auto" where the folder has a shortlist and the engine is torch. Scores are then over
                these pieces: docs/guides/shortlist.md.

        Raises:
            BundleError: a folder is incomplete or damaged, a model of the ensemble has another tokenizer, or there is
                no shortlist where one is asked for.
            ConfigError: there is no such engine, device or quantization, or the engine cannot run this model.
            MissingDependencyError: the engine is not installed.
        """
        if isinstance(ensemble, str | Path):
            raise TypeError("Give a list of model folders as ensemble: for a single one, [folder].")
        require_engine(engine, quantization)
        bundle = Bundle.load(Path(path))
        others = [Bundle.load(Path(other)) for other in ensemble]
        for other in others:
            if other.tokenizer.fingerprint != bundle.tokenizer.fingerprint:
                raise BundleError(
                    f"{other.path}: its tokenizer is not that of {bundle.path}. Models of one ensemble must share a "
                    "vocabulary: train them from one prepared corpus."
                )
        choice = choose_engine(
            engine,
            quantization,
            device=device,
            model=bundle.config.model,
            num_models=1 + len(others),
            shortlist=shortlist,
        )
        loaded = load_engine(
            bundle,
            choice,
            device=device,
            threads=threads,
            quantization=quantization,
            others=others,
            shortlist=shortlist,
        )
        read = checksums_of(bundle, others, with_shortlist=uses_shortlist(bundle, choice.name, shortlist))
        return cls(loaded, bundle.tokenizer, bundle.config.decode, bundle, read)

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_tokens: int | None = None,
        batch_size: int | None = None,
        prefixes: Sequence[str] | None = None,
        forbidden: Sequence[str] | Sequence[Sequence[str]] | None = None,
        required: Sequence[Sequence[str | Sequence[str]]] | None = None,
        glossary: GlossaryLike = None,
        handling: Handling | None = None,
        **options: Unpack[DecodeOptions],
    ) -> list[str]:
        """Returns one translation for each line, in order; a line of white space gives an empty string.

        A translation depends on its own line only. What is not given comes from the model's configuration.

        Args:
            lines: any strings; a line break inside one is text like any other.
            beam_size: beam width; 1 is greedy search, the fastest.
            length_penalty: α of GNMT's length penalty; higher favours longer translations.
            max_extra_tokens: the greatest length of a translation is that of its source plus this.
            batch_size: lines translated together: changes speed and memory, never a translation.
            prefixes: for each line how its translation begins, to the letter, or "".
            forbidden: phrases that no translation may hold, or for each line a list of them.
            required: for each line a list of terms that must appear, or of lists of terms to choose from.
            glossary: a file or dictionary of source terms and the terms that must appear for them.
            handling: of long lines, markup and doubtful output; None cuts lines that are longer than the model reads
                into sentences, and does no more. Prefixes and `required` are of whole lines: with them,
                nothing is cut, and markup, guard and split="always" are refused.
            options: any other field of `DecodeConfig`, such as temperature=0.8 or min_tokens=5.

        Raises:
            ConfigError: an option is unknown, out of range, or contradicts another.
            DataError: a prefix or required term holds what is forbidden, or the glossary cannot be read.
        """
        chosen = self.with_options(beam_size, length_penalty, max_extra_tokens, batch_size, **options)
        asked = constraints_of(len(lines), prefixes, forbidden, required)
        return [best.text for best, *_ in self._translate(lines, chosen, 1, handling, asked, glossary_of(glossary))]

    def translate_n_best(
        self,
        lines: Sequence[str],
        n_best: int,
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_tokens: int | None = None,
        batch_size: int | None = None,
        prefixes: Sequence[str] | None = None,
        forbidden: Sequence[str] | Sequence[Sequence[str]] | None = None,
        required: Sequence[Sequence[str | Sequence[str]]] | None = None,
        glossary: GlossaryLike = None,
        handling: Handling | None = None,
        **options: Unpack[DecodeOptions],
    ) -> list[list[Translation]]:
        """Returns for each line its translations, best first: at least one, at most `n_best`.

        The first is what `translate` returns, where nothing is forbidden or required: what is has to hold for all of
        them, and so may have a line searched again whose first alone would have passed. `n_best` may not exceed the
        beam size; for the rest see `translate`. With a temperature they are as many draws, in the order in which they
        were drawn, and may be equal.
        """
        chosen = self.with_options(beam_size, length_penalty, max_extra_tokens, batch_size, **options)
        asked = constraints_of(len(lines), prefixes, forbidden, required)
        return self._translate(lines, chosen, n_best, handling, asked, glossary_of(glossary))

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, length_penalty: float | None = None
    ) -> list[TargetScore]:
        """Returns what the model thinks of given translations: the log-probability of each of their pieces, and more.

        A target is scored in the pieces that the tokenizer spells it with. A search may have written the same text in
        others, and then had another log-probability.

        Args:
            sources: lines; one of white space is read as empty.
            targets: a translation for each, as it stands.
            length_penalty: α of GNMT's length penalty, for `TargetScore.score`; None: the model's.

        Raises:
            DataError: there are not as many targets as sources, or one is longer than learned positions reach.
        """
        alpha = self.with_options(length_penalty=length_penalty).length_penalty
        return score_targets(self.engine, self.tokenizer, sources, targets, alpha)

    def stream(
        self,
        lines: Iterable[str],
        *,
        options: DecodeConfig | None = None,
        n_best: int = 1,
        window: int | None = None,
        handling: Handling | None = None,
        constraints: Iterable[Constraints] | None = None,
        glossary: GlossaryLike = None,
        first_line: int = 1,
        origin: str = "",
    ) -> Iterator[list[Translation]]:
        """Yields what `translate_n_best` returns, line by line, for input of any length in bounded memory.

        `window` lines are read at a time and translated in batches of similar length; None chooses by batch size.
        `constraints` has an entry for each line, and is read alongside. Errors count lines from `first_line`, and begin
        with `origin`, such as "test.en, ".

        Raises:
            DataError: there are fewer constraints than lines, or a prefix holds what is forbidden.
        """
        if isinstance(lines, str):
            raise TypeError("Give an iterable of lines: for a single one, [line].")
        options, glossary = options or self.options, glossary_of(glossary)
        asked = None if constraints is None else iter(constraints)
        for chunk in windows(lines, window or self.window_lines(options)):
            of_chunk = None if asked is None else list(itertools.islice(asked, len(chunk)))
            if of_chunk is not None and len(of_chunk) < len(chunk):
                last = first_line + len(of_chunk) - 1
                raise DataError(f"{origin}line {last + 1}: there are constraints up to line {last} only.")
            yield from self._translate(chunk, options, n_best, handling, of_chunk, glossary, first_line, origin)
            first_line += len(chunk)

    @staticmethod
    def window_lines(options: DecodeConfig) -> int:
        """Returns how many lines a stream reads ahead, where it is not told."""
        return options.batch_size * _WINDOW_BATCHES

    def attend(self, source: str, target: str | None = None) -> Attention:
        """Returns what every head of every layer attends to in one pair; of an ensemble, those of its first model.

        Args:
            source: a line.
            target: its translation, taken as given; None translates first, and looks at that.

        Raises:
            ConfigError: the engine cannot tell its attention weights.
            DataError: the source is empty or white space.
        """
        if not isinstance(self.engine, AttendingEngine):
            raise ConfigError(
                f"{self.engine.name}: cannot tell its attention weights. Load with engine='torch', "
                "which needs PyTorch: pip install 'transduce[train]'."
            )
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
        **options: Unpack[DecodeOptions],
    ) -> DecodeConfig:
        """Returns the model's decoding options with those laid over them that are not None.

        Raises:
            ConfigError: an option is unknown, out of range, or contradicts another.
        """
        changes: dict[str, Any] = {
            "beam_size": beam_size,
            "length_penalty": length_penalty,
            "max_extra_tokens": max_extra_tokens,
            "batch_size": batch_size,
            **options,
        }
        return with_decode_options(self.options, changes)

    def _translate(
        self,
        lines: Sequence[str],
        options: DecodeConfig,
        n_best: int,
        handling: Handling | None,
        constraints: Sequence[Constraints] | None,
        glossary: Glossary | None = None,
        first_line: int = 1,
        origin: str = "",
    ) -> list[list[Translation]]:
        if isinstance(lines, str):  # a sequence of characters, which is never meant
            raise TypeError("Give a list of lines: for a single one, [line].")
        handling = handling or Handling()

        def in_parts(lines: Sequence[str], forbidden: tuple[str, ...] = ()) -> list[list[Translation]]:
            search = partial(self.search, glossary=glossary, forbidden=forbidden)
            return treat(self, search, lines, options, n_best, handling)

        def whole(lines: list[str], asked: list[Constraints], places: list[int]) -> list[list[Translation]]:
            names = [f"{origin}line {first_line + place}" for place in places]
            search = partial(self.search, glossary=glossary, constraints=asked, names=names)
            return treat(self, search, lines, options, n_best, handling.of_whole_lines())

        def may_be_cut(line: str) -> bool:
            num_bytes = len(line.encode(errors="surrogatepass"))  # no fewer than tokens, but for one of white space
            return handling.is_of_every_line or num_bytes >= self.engine.max_source_tokens

        return in_parts(lines) if constraints is None else apart(lines, constraints, in_parts, whole, may_be_cut)

    def search(
        self,
        lines: Sequence[str],
        options: DecodeConfig,
        n_best: int,
        constraints: Sequence[Constraints] | None = None,
        glossary: Glossary | None = None,
        forbidden: tuple[str, ...] = (),
        names: Sequence[str] | None = None,
    ) -> list[list[Translation]]:
        """Returns the search's own results for each line: what `translate_n_best` returns, without any handling.

        `forbidden` is asked of all lines, in place of `constraints`; `names` of lines are for errors.
        """
        options.require_n_best(n_best)
        texts = [line if line.strip() else "" for line in lines]
        sources = [ids if text else [] for text, ids in zip(texts, self.tokenizer.encode_batch(texts), strict=True)]
        asked = with_terms(constraints or [Constraints(forbidden=forbidden)] * len(lines), glossary, texts)
        if any(asked):
            names = names or [repr(shorten(text, 60, placeholder=" …")) for text in texts]
            made: set[int] = set()
            hypotheses = search_within(self.engine, self.tokenizer, sources, options, n_best, asked, names, made)
            forced = {
                place: forced_terms(
                    self.engine, self.tokenizer, sources[place], hypotheses[place], asked[place].required
                )
                for place in sorted(made)
            }
        else:
            hypotheses, forced = self.engine.translate(sources, options, n_best), {}
        outputs = iter(self.tokenizer.decode_batch([h.ids for found in hypotheses for h in found]))
        limit = self.engine.max_source_tokens
        return [
            [
                self._translation(h, next(outputs), len(source) > limit, each, of_it)
                for h, of_it in zip(found, forced.get(place, [()] * len(found)), strict=True)
            ]
            for place, (source, found, each) in enumerate(zip(sources, hypotheses, asked, strict=True))
        ]

    def _translation(
        self, best: Hypothesis, text: str, truncated: bool, asked: Constraints, forced: tuple[Choice, ...]
    ) -> Translation:
        text = text.replace("\n", " ")
        return Translation(
            text=text,
            required=outcome(text, asked.required),
            forced=forced,
            warnings=(*warnings_of(text, asked.required), *warnings_of_forced(forced), *refusal(best, asked)),
            score=best.score,
            log_probability=best.log_probability,
            tokens=tuple(self.tokenizer.pieces(best.ids)),
            finished=best.finished,
            source_truncated=truncated,
            ids=tuple(best.ids),
        )
