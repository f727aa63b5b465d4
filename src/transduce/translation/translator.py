"""Text to text: the public interface of a trained model.

translator = Translator.load("models/m30k")
translator.translate(["A dog runs."])            # one string for each string
translator.translate_n_best(["A dog runs."], 4)  # several, with scores
translator.score(["A dog runs."], ["Ein Hund läuft."])  # log-probabilities of a given translation
translator.alternatives("A dog runs.", "Ein ")   # words that may follow, with their continuations
translator.attend("A dog runs.")                 # what every head attends to
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.loading import with_decode_options
from transduce.config.schema import DecodeOptions
from transduce.engines.interface import Engine
from transduce.engines.loading import checksums_of, choose_engine, load_engine, reads_shortlist, require_engine
from transduce.errors import BundleError
from transduce.text import Tokenizer
from transduce.translation.attention import attend
from transduce.translation.call_options import SearchOptions, require_folders
from transduce.translation.constraints.glossary import GlossaryLike, glossary_of
from transduce.translation.constraints.line_constraints import Constraints, constraints_of
from transduce.translation.directions import Directions, directed
from transduce.translation.forced_scores import TargetScore, score_targets
from transduce.translation.pipeline import Request, TextOptions, run_pipeline
from transduce.translation.pipeline.many_sentences import lines_of_many_sentences, many_sentences_warning
from transduce.translation.pipeline.text_options import text_options_of
from transduce.translation.result import Alternative, Attention, Translation
from transduce.translation.windows import Window, cut_windows

# Batches that a stream reads ahead: enough to make batches of lines of similar length.
_WINDOW_BATCHES = 32


class Translator:
    """Translates lines of text with one model."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        options: DecodeConfig,
        bundle: Bundle | None = None,
        checksums: Mapping[str, str] | None = None,
    ) -> None:
        self.engine: Engine = engine
        self.tokenizer = tokenizer
        self.options = options  # defaults of each call
        self.bundle: Bundle | None = bundle  # the model folder, if it came from one
        self.checksums = dict(checksums or {})  # SHA-256 of each file that translations depend on, by readable names

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
        draft: str | Path = "",
    ) -> Self:
        """Loads a model folder.

        Args:
            path: a folder that `transduce train` or `transduce average` wrote.
            engine: "torch" (the reference), "ctranslate2" (small, quick to start; needs no torch), or "auto": torch on
                a GPU, and ctranslate2 on a CPU, with torch for what it cannot do: docs/guides/engines.md.
            device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", …
            threads: CPU threads of the engine; None leaves its default.
            quantization: the numbers to compute with, such as "int8"; None is float32. ctranslate2 converts once.
            ensemble: folders of more models, of the same vocabulary, that translate together with this one; torch only.
            shortlist: "on" searches, and scores, only in the pieces that can translate those of the source. "auto" does
                so if the folder has a shortlist and the engine is torch: docs/guides/shortlist.md.
            draft: what proposes tokens to greedy search: "self", "blockwise" or a smaller model: docs/guides/drafts.md.

        Raises:
            BundleError: a folder is incomplete or damaged, a model of the ensemble has another tokenizer, or the
                shortlist is missing.
            ConfigError: there is no such engine, device or quantization, or the engine cannot run this model.
            MissingDependencyError: the engine is not installed.
        """
        require_folders(ensemble)
        require_engine(engine, quantization)
        bundle = Bundle.load(Path(path))
        others = [Bundle.load(Path(other)) for other in ensemble]
        for other in others:
            if other.tokenizer.fingerprint != bundle.tokenizer.fingerprint:
                raise BundleError(
                    f"{other.path}: its tokenizer is not that of {bundle.path}. An ensemble needs one vocabulary."
                )
        choice = choose_engine(
            engine,
            quantization,
            device=device,
            model=bundle.config.model,
            num_models=1 + len(others),
            shortlist=shortlist,
            draft=draft,
        )
        loaded = load_engine(
            bundle,
            choice,
            device=device,
            threads=threads,
            quantization=quantization,
            others=others,
            shortlist=shortlist,
            draft=draft,
        )
        read = checksums_of(bundle, others, with_shortlist=reads_shortlist(bundle, choice, shortlist))
        return cls(loaded, bundle.tokenizer, bundle.config.decode, bundle, read)

    def translate(
        self,
        lines: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        forbidden: Sequence[str] | Sequence[Sequence[str]] | None = None,
        required: Sequence[Sequence[str | Sequence[str]]] | None = None,
        glossary: GlossaryLike = None,
        text_options: TextOptions | None = None,
        target: str = "",
        **options: Unpack[SearchOptions],
    ) -> list[str]:
        """Returns one translation for each line, in order; a line of white space gives an empty string.

        A translation depends on its own line only.

        Args:
            lines: any strings; a line break inside one is text like any other.
            prefixes: for each line the beginning of its translation, to the letter, or "".
            forbidden: phrases that no translation may hold, or for each line a list of them.
            required: for each line a list of terms that must appear, or of lists of terms to choose from.
            glossary: a file or dictionary of source terms and their required translations.
            text_options: what is done with long lines, markup and doubtful output, and the domain, for a model of
                several. By default only lines that are longer than the model reads are split into sentences. A line
                with a prefix or `required` is never split; then markup, guard and split="always" are refused.
            target: code of the target language, for a model of several; "": that of `text_options`.
            options: fields of `DecodeConfig`; None and those not given come from the model's configuration:
                beam_size: beam width; 1 is greedy search, the fastest.
                length_penalty: α of GNMT's length penalty; higher favours longer translations.
                max_extra_tokens: the greatest length of a translation is that of its source plus this.
                batch_size: lines translated together: changes speed and memory; in float32, never a translation.
                and the others, such as temperature=0.8 or min_tokens=5.

        Raises:
            ConfigError: an option is unknown, out of range, or contradicts another.
            DataError: a prefix or required term holds a forbidden phrase, or the glossary cannot be read.
        """
        constraints = constraints_of(lines, prefixes, forbidden, required)
        texts = text_options_of(text_options, target)
        request = Request(self.with_options(**options), 1, texts, glossary_of(glossary))
        return [best.text for best, *_ in self._run(Window(1, lines, constraints), request)]

    def translate_n_best(
        self,
        lines: Sequence[str],
        n_best: int,
        *,
        prefixes: Sequence[str] | None = None,
        forbidden: Sequence[str] | Sequence[Sequence[str]] | None = None,
        required: Sequence[Sequence[str | Sequence[str]]] | None = None,
        glossary: GlossaryLike = None,
        text_options: TextOptions | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[list[Translation]]:
        """Returns for each line its translations, best first: at least one, at most `n_best`.

        For the arguments see `translate`; `text_options` names target language and domain. `n_best` may not exceed
        the beam size. With a temperature the translations are random draws, in the order in which they were drawn; two
        may be equal.

        The first one is what `translate` returns. This may differ for a line with forbidden phrases or required terms:
        all of its translations must satisfy them, so it may be searched again where the first alone would have passed.
        """
        constraints = constraints_of(lines, prefixes, forbidden, required)
        search = self.with_options(**options)
        request = Request(search, n_best, text_options_of(text_options), glossary_of(glossary))
        return self._run(Window(1, lines, constraints), request)

    def _run(self, window: Window, request: Request) -> list[list[Translation]]:
        """Returns the translations of each line; warns a caller of `translate` of what may make them bad.

        That is a line of many sentences, and the first time, a pair of languages that the model was not trained on.
        """
        found = run_pipeline(self, window, request)
        texts = request.text_options
        if notice := self.directions.choose(texts.language, texts.target, texts.domain).notice:
            warnings.warn(notice, stacklevel=3)
        if many := lines_of_many_sentences(self, window.lines, found, request.text_options):
            warnings.warn(many_sentences_warning(many), stacklevel=3)
        return found

    @property
    def directions(self) -> Directions:
        """The pairs of languages that the model translates between, and its domains."""
        return Directions.of(self.tokenizer, self.bundle)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        length_penalty: float | None = None,
        source_language: str = "",
        target_language: str = "",
        domain: str = "",
    ) -> list[TargetScore]:
        """Returns the scores of given translations: the log-probability of each of their pieces, and more.

        A target is scored in its usual pieces. A search may have written the same text in other pieces, with another
        log-probability.

        Args:
            sources: lines; one of white space is read as empty.
            targets: a translation for each.
            length_penalty: α of GNMT's length penalty, for `TargetScore.score`; None: the model's.
            source_language, target_language: codes, for a model of several languages; "": the model's default.
            domain: for a model that was trained on domains.

        Raises:
            ConfigError: the model does not know the language or the domain.
            DataError: there are not as many targets as sources, or one is longer than learned positions reach.
        """
        alpha = self.with_options(length_penalty=length_penalty).length_penalty
        return score_targets(directed(self, source_language, target_language, domain), sources, targets, alpha)

    def stream(
        self,
        lines: Iterable[str],
        *,
        options: DecodeConfig | None = None,
        n_best: int = 1,
        window: int | None = None,
        text_options: TextOptions | None = None,
        constraints: Iterable[Constraints] | None = None,
        glossary: GlossaryLike = None,
    ) -> Iterator[list[Translation]]:
        """Yields what `translate_n_best` returns, line by line, for input of any length in bounded memory.

        `window` lines are read at a time and translated in batches of similar length; None chooses by batch size.
        `lines` may be an open file: the line break that ends a line is left out. `constraints` has an entry for each.

        Raises:
            DataError: there are fewer constraints than lines, or a prefix holds a forbidden phrase.
        """
        if isinstance(lines, str):
            raise TypeError("Give an iterable of lines: for a single one, [line].")
        texts = text_options_of(text_options)
        request = Request(self.options if options is None else options, n_best, texts, glossary_of(glossary))
        size = self.window_lines(request.options) if window is None else window
        for each in cut_windows(lines, size, constraints):
            yield from run_pipeline(self, each, request)

    @staticmethod
    def window_lines(options: DecodeConfig) -> int:
        """Returns the default number of lines that a stream reads ahead."""
        return options.batch_size * _WINDOW_BATCHES

    def attend(
        self,
        source: str,
        target: str | None = None,
        *,
        source_language: str = "",
        target_language: str = "",
        domain: str = "",
    ) -> Attention:
        """Returns what every head of every layer attends to in one pair; of an ensemble, those of its first model.

        Args:
            source: a line.
            target: its translation; None translates the source first.
            source_language, target_language: codes, for a model of several languages; "": the model's default.
            domain: for a model that was trained on domains.

        Raises:
            ConfigError: the engine does not return attention weights, or the model does not know the language.
            DataError: the source is empty or white space.
        """
        return attend(directed(self, source_language, target_language, domain), self.options, source, target)

    def alternatives(
        self,
        source: str,
        target_prefix: str,
        n: int = 5,
        *,
        source_language: str = "",
        target_language: str = "",
        domain: str = "",
    ) -> list[Alternative]:
        """Returns at most `n` different words that may follow in a translation, the most probable first.

        Each comes with the translation that continues it, found by greedy search. Of words that begin with the same
        piece, only the best is found. Where the translation ends here with a probability of at least 1 %, its end is
        one of them, with the word "": then white space at the end of the prefix is left out, and a full stop or another
        sign may be added.

        Args:
            source: a line, which is searched whole.
            target_prefix: the translation up to the word, to the letter. It ends in white space where a new word is
                asked for; else its last word may be continued.
            n: from 1 to 100.
            source_language, target_language: codes, for a model of several languages; "": the model's default.
            domain: for a model that was trained on domains.

        Raises:
            ConfigError: `n` is out of range, or the model does not know the language.
            DataError: the prefix holds a line break, or is longer than the model's positions reach.
        """
        from transduce.translation.alternatives import alternatives  # imported here, as NumPy is slow to import

        model = directed(self, source_language, target_language, domain)
        return alternatives(model, self.options, source, target_prefix, n)

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
