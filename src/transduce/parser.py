"""Sentences to trees: the public interface of a trained parser (§6.3).

parser = Parser.load("models/wsj")
parser.parse(["The dog barks ."])   # one tree for each tokenised sentence
parser.score(gold_trees)            # F1 and more, against known trees
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from transduce.bundle import Bundle
from transduce.config import DataConfig, DecodeConfig
from transduce.data.progress import progress_bar
from transduce.data.treebank_reader import sentence_reader
from transduce.decoding.constraints import BracketPieces, Brackets
from transduce.engines.capabilities import ENGINES, FAST, WELL_FORMED, Lack
from transduce.engines.loading import choose_engine
from transduce.errors import BundleError
from transduce.text import Tokenizer
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator
from transduce.treebank import Tree
from transduce.treebank.brackets import parse_scores
from transduce.treebank.pairs import from_output, sentence_words, tree_words
from transduce.treebank.trees import MAX_HEIGHT, is_atom

# A sentence is never split: one that is longer than the model reads is cut short.
_WHOLE_SENTENCES = TextOptions(split="never")


@dataclass(frozen=True, slots=True)
class Parse:
    """The parse of one sentence."""

    words: tuple[str, ...]  # of the sentence, round brackets written as -LRB- and -RRB-
    tree: Tree | None  # over exactly these words; None if there are none
    repaired: bool  # whether the output was not a tree over the words, and had to be repaired
    score: float  # log-probability of the output over the length penalty; higher is better
    finished: bool  # False: cut off at the length limit
    source_truncated: bool  # whether the sentence is longer than the model reads: the rest has no structure


def bracket_pieces(tokenizer: Tokenizer) -> BracketPieces | None:
    """Returns which pieces of a parser's vocabulary write brackets and leaves.

    A label has an opening and a closing bracket of one piece each: rarer ones, which the vocabulary would spell, are
    left out. A tag may have several pieces, the first of which is more than a space. None: there is no label.
    """
    spelled = tokenizer.piece_bytes(range(tokenizer.vocab_size))
    ids = {piece: index for index, piece in enumerate(spelled)}
    closing, leaves, continuing = {}, [], []
    for index, piece in enumerate(spelled):
        text = piece.decode("latin-1")  # a character for each byte: pieces may end within a letter
        if text.startswith(" (") and is_atom(text[2:]) and (closed := ids.get(b" )" + piece[2:])) is not None:
            closing[index] = closed
        elif text.startswith(" ") and is_atom(text[1:]):
            leaves.append(index)
        elif is_atom(text):
            continuing.append(index)
    return BracketPieces(tokenizer.vocab_size, closing, leaves, continuing, MAX_HEIGHT) if closing else None


def lack_of_trees(bundle: Bundle) -> Lack | None:
    """Returns why the fast engine is not the one to parse with; None where neither searches among trees only."""
    if FAST.has(WELL_FORMED) or bracket_pieces(bundle.tokenizer.target) is None:
        return None
    return Lack(FAST.name, WELL_FORMED, "brackets", "--unconstrained does without it", optional=True)


class Parser:
    """Parses tokenised sentences with one model."""

    def __init__(self, translator: Translator, *, constrained: bool = False) -> None:
        """Takes what turns words into brackets, as text, and whether it searches among well-formed trees only.

        An engine without this search refuses it, and so does one with a shortlist. A vocabulary without a label whose
        brackets are one piece each has no such search: its outputs are repaired.
        """
        self.translator = translator
        self._pieces = bracket_pieces(translator.tokenizer.target) if constrained else None
        data = translator.bundle.config.data if translator.bundle is not None else DataConfig(format="trees")
        self._read = sentence_reader(data, translator.tokenizer)

    def __repr__(self) -> str:
        return f"Parser({self.translator!r})"

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        engine: str = "auto",
        device: str = "auto",
        threads: int | None = None,
        quantization: str | None = None,
        constrained: bool = True,
    ) -> Self:
        """Loads a model folder that was trained on trees; for other arguments see `Translator.load`.

        Args:
            engine: "auto" is torch where PyTorch is installed, unless `constrained` is False.
            constrained: whether the torch engine searches among well-formed trees over the words only. Outputs of the
                other engine are repaired where they are none. DEVIATION: the paper constrains no parse.

        Raises:
            BundleError: the folder is incomplete or damaged, or its model is no parser; and what `Translator.load`
                raises.
        """
        bundle = Bundle.load(path)
        if bundle.config.data.format != "trees":
            raise BundleError(
                f"{path}: this model was not trained on trees (data.format). 'transduce parse train' makes a parser; "
                "this one is for 'transduce translate'."
            )
        lack = lack_of_trees(bundle) if constrained and engine == "auto" else None
        choice = choose_engine(engine, quantization, device=device, model=bundle.config.model, lack=lack)
        chosen = engine if choice.fallback else choice.name
        translator = Translator.load(path, engine=chosen, device=device, threads=threads, quantization=quantization)
        return cls(translator, constrained=constrained and ENGINES[choice.name].has(WELL_FORMED))

    def parse(
        self,
        sentences: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> list[Tree | None]:
        """Returns a tree over exactly the words of each sentence, in order; None for one without words.

        A tree depends on its own sentence only. Options that are not given come from the model's configuration.

        Args:
            sentences: tokenised as in the treebank of the training; words have a space between them.
            beam_size: beam width; 1 is greedy search, the fastest.
            length_penalty: α of GNMT's length penalty; higher favours longer outputs, so more brackets.
            max_extra_tokens: the greatest length of an output is that of its sentence plus this, in subwords.
            batch_size: sentences parsed together: changes speed and memory, never a tree.
        """
        options = self.translator.with_options(beam_size, length_penalty, max_extra_tokens, batch_size)
        return [parse.tree for parse in self.stream(sentences, options=options)]

    def stream(self, sentences: Iterable[str], *, options: DecodeConfig | None = None) -> Iterator[Parse]:
        """Yields the parse of each sentence, for input of any length in bounded memory."""
        if isinstance(sentences, str):  # each character would be a sentence
            raise TypeError("Give an iterable of sentences: for a single one, [sentence].")
        # Without constraints there is no third reader, which would keep all sentences waiting for it.
        given, read, *bound = itertools.tee(map(sentence_words, sentences), 2 if self._pieces is None else 3)
        outputs = self.translator.stream(
            (self._read(" ".join(words)) for words in read),
            options=options,
            text_options=_WHOLE_SENTENCES,
            constraints=map(self._constraints, *bound) if bound else None,
        )
        for words, [best] in zip(given, outputs, strict=True):
            tree, repaired = from_output(best.text, words) if words else (None, False)
            yield Parse(tuple(words), tree, repaired, best.score, best.finished, best.source_truncated)

    def _constraints(self, words: Sequence[str]) -> Constraints:
        """Returns the form of a sentence's output."""
        if self._pieces is None or not words:
            return Constraints()
        return Constraints(brackets=Brackets(self._pieces, len(words)))

    def reparse(
        self, trees: Sequence[Tree], *, options: DecodeConfig | None = None, label: str = ""
    ) -> list[tuple[Tree, bool]]:
        """Returns for each known tree the parse of its words, and whether that had to be repaired.

        Args:
            trees: normalised trees.
            options: of the search; None takes the model's own.
            label: of a progress bar; without one, none is shown.
        """
        parses = []
        with progress_bar(label, len(trees), unit=" sentences", shown=bool(label)) as bar:
            for parse in self.stream((" ".join(tree_words(tree)) for tree in trees), options=options):
                if parse.tree is not None:  # always: a tree has words
                    parses.append((parse.tree, parse.repaired))
                bar.update()
        return parses

    def score(self, trees: Iterable[Tree], *, options: DecodeConfig | None = None, label: str = "") -> dict[str, float]:
        """Scores the parses of known trees; see `reparse` and `treebank.parse_scores`."""
        gold = list(trees)
        return parse_scores(gold, self.reparse(gold, options=options, label=label))
