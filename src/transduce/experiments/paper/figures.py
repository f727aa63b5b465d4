"""Figures 3 to 5: what the encoder's heads of a trained model attend to, in layer 5 of 6 or the nearest.

The paper's authors chose their heads by eye. Here numbers choose them:

- Figure 3 shows all heads for one word, and how much weight each gives to distant words.
- Figure 4, anaphora: the two heads that give most weight from the anaphor to its antecedent.
- Figure 5, sentence structure: heads that attend to single words (a high peak), but not at a fixed distance, for which
  the position alone is enough. The second head also has to attend elsewhere than the first.

One sentence proves little. With a treebank, all heads of the encoder are scored on relations in hundreds of sentences
(`head_scores`), and a fourth picture is of the heads that were chosen so.
"""

import string
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from transduce import files
from transduce.bundle import Bundle
from transduce.data.treebank_reader import read_normalised, treebank_files
from transduce.errors import ConfigError, DataError
from transduce.experiments.paper.experiment import Experiment, Measurement, Options, Say, Values
from transduce.experiments.paper.figures_report import draw, render
from transduce.experiments.paper.head_scores import FEWEST_CASES, LENGTHS, heads_to_show, score_heads
from transduce.experiments.paper.relations import DISTANT, FAR_WORDS
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.experiments.paper.trained_models import demo_config, make_demo, refuse_without_effect, trained
from transduce.inspection import Panel, View, head_statistics, view
from transduce.inspection.statistics import entropy_bits
from transduce.reporting.tables import counted
from transduce.translation.translator import Translator

MOST_SENTENCES = 1000  # of a treebank, by default
_DIGITS = 4  # of a weight in results.json


@dataclass(frozen=True)
class Sentences:
    """The sentences of the figures."""

    sentence: str  # Figure 3
    word: str
    related: tuple[str, ...]  # distant words that `word` is related to
    anaphora: str  # Figures 4 and 5
    anaphor: str
    antecedent: str


SENTENCES: dict[Scale, Sentences] = {
    "smoke": Sentences(
        "The train to Berlin leaves at 4:35 PM on March 12.", "leaves", ("March",),
        "The parcel weighs 17 kilograms and its label says so.", "its", "parcel",
    ),
    "laptop": Sentences(
        "A man in a blue shirt and a yellow helmet on a tall ladder is cleaning a window.", "cleaning", ("man",),
        "A woman in a red dress is holding her baby in the park.", "her", "woman",
    ),
    "paper": Sentences(  # the figures' own
        "It is in this spirit that a majority of American governments have passed new laws since 2009 making the "
        "registration or voting process more difficult.", "making", ("more", "difficult"),
        "The Law will never be perfect, but its application should be just - this is what we are missing, in my "
        "opinion.", "its", "Law",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class FiguresOptions(Options):
    """Options of the figures; each scale has default sentences, and the smallest trains a model in seconds."""

    model: Path | None = None  # a model folder; needed at the other scales
    layer: int | None = None  # of the encoder, from 1; None: the last but one
    sentence: str | None = None  # of Figure 3, with `word` and, if there are any, the words `related` to it
    word: str | None = None  # whose attention is shown
    related: Sequence[str] = ()  # words of `sentence`
    anaphora: str | None = None  # the sentence of Figures 4 and 5, with `anaphor` and `antecedent`
    anaphor: str | None = None  # a word that stands for another
    antecedent: str | None = None  # that other one
    trees: Sequence[Path] = ()  # a treebank, on whose sentences all heads are scored
    max_sentences: int | None = None  # of it; None: `MOST_SENTENCES`

    @property
    def sentences(self) -> Sentences:
        """The sentences of the figures.

        Raises:
            ConfigError: a sentence was given without its words, or words without their sentence.
        """
        found = at_scale(SENTENCES, self.scale)
        if self.sentence is not None and self.word is not None:
            found = replace(found, sentence=self.sentence, word=self.word, related=tuple(self.related))
        elif self.sentence is not None or self.word is not None or self.related:
            raise ConfigError("--sentence, --word (and --related) go together: a sentence, and the word in it to show.")
        anaphora, anaphor, antecedent = self.anaphora, self.anaphor, self.antecedent
        if anaphora is not None and anaphor is not None and antecedent is not None:
            return replace(found, anaphora=anaphora, anaphor=anaphor, antecedent=antecedent)
        if (anaphora, anaphor, antecedent) != (None, None, None):
            raise ConfigError("--anaphora, --anaphor and --antecedent go together: a sentence, and two words of it.")
        return found


def experiment(options: FiguresOptions) -> Experiment:
    """Returns the experiment.

    Raises:
        ConfigError: there is no model, a sentence without its words, or an option that has no effect.
        DataError: there is no such treebank.
    """
    scale, output, model, layer = options.scale, options.output, options.model, options.layer
    sentences = options.sentences
    if model is None and scale != "smoke":
        raise ConfigError(
            f"figures --scale {scale} looks into a trained model: name one, --model DIR. "
            "'transduce train recipes/multi30k-en-de.toml --output runs/m30k' makes runs/m30k/model."
        )
    known = _identity(model) if model else "trained at once"
    folder = model or output / "runs" / "demo" / "model"
    attend = partial(_attend, folder, layer)
    measured = [
        Measurement("model", partial(_model, folder, None if model else output / "runs" / "demo", not options.quiet)),
        Measurement("figure3", partial(_figure3, attend, sentences)),
        Measurement("figure4", partial(_figure4, attend, sentences)),
        Measurement("figure5", partial(_figure5, attend, sentences)),
    ]
    of_trees: Values = {}
    if options.trees:
        most = options.max_sentences or MOST_SENTENCES
        of_trees = {"trees": [_checksums(path) for path in options.trees], "max_sentences": most}
        measured.append(Measurement("relations", partial(_relations, folder, sentences, options.trees, most)))
    else:
        refuse_without_effect({"--max-sentences": options.max_sentences}, "it is an option of --trees")
    return Experiment(
        name="figures",
        title="Figures 3 to 5: what heads attend to",
        settings={"scale": scale, "model": known, "layer": layer, **asdict(sentences), **of_trees},
        measurements=measured,
        render=partial(render, scale),
        draw=draw,
    )


def _identity(model: Path) -> Values:
    """Returns what identifies a finished model."""
    bundle = Bundle.load(model)
    return {"folder": str(model), "sha256": dict(bundle.checksums), **bundle.metrics}


def _checksums(treebank: Path) -> Values:
    """Returns what identifies a treebank."""
    return {"name": treebank.name, "sha256": [files.sha256(path) for path in treebank_files(treebank)]}


@dataclass(frozen=True, eq=False)
class SentenceAttention:
    """The attention of one layer in one sentence."""

    view: View  # by words
    layer: int  # from 1
    translation: str

    @property
    def weights(self) -> np.ndarray:
        """Of the layer: (heads, n, n)."""
        return np.asarray(self.view.weights[self.layer - 1], np.float64)

    def label(self, word: str) -> str:
        """Returns a word as it is in the view, perhaps with punctuation; a word that is not there stays as it is."""
        labels = [unit.label for unit in self.view.queries]
        found = [label for label in labels if label.strip(string.punctuation) == word]
        return word if word in labels or not found else found[0]

    def rows_of(self, word: str) -> list[int]:
        """Returns the rows of a word.

        Raises:
            ConfigError: it is not there; lists the words that are.
        """
        return Panel(self.view, self.layer, word=self.label(word)).rows()

    def values(self, sentence: str) -> Values:
        """Returns the values that every figure has."""
        return {
            "sentence": sentence,
            "translation": self.translation,
            "layer": self.layer,
            "num_layers": self.view.num_layers,
            "num_heads": self.view.num_heads,
            "words": [unit.label for unit in self.view.queries],
        }


Attend = Callable[[str], SentenceAttention]


def _attend(model: Path, layer: int | None, sentence: str) -> SentenceAttention:
    """Returns the attention of the heads of an encoder's layer in a sentence."""
    attention = Translator.load(model, engine="torch").attend(sentence)
    seen = view(attention, "encoder", words=True)
    panel = Panel(seen, layer)
    panel.rows()  # refuses a layer that is not there
    return SentenceAttention(seen, panel.shown_layer, attention.target)


def _model(model: Path, run: Path | None, show_progress: bool, say: Say) -> Values:
    if run is not None:
        config = demo_config(run / "corpus", "de", max_steps=40)
        make_demo(config)
        trained(config, run, say, show_progress=show_progress)
    bundle = Bundle.load(model)
    return {"name": bundle.config.name, "shape": asdict(bundle.config.model), "metrics": bundle.metrics}


def _figure3(attend: Attend, sentences: Sentences, say: Say) -> Values:
    seen = attend(sentences.sentence)
    rows = seen.rows_of(sentences.word)
    row_HK = seen.weights[:, rows].mean(axis=1)
    far_K = np.abs(np.arange(row_HK.shape[1])[None] - np.array(rows)[:, None]).min(axis=0) > FAR_WORDS
    far_K[[unit.word is None for unit in seen.view.keys]] = False  # </s> is no word
    related = [index for word in sentences.related for index in seen.rows_of(word)]
    most = (row_HK * far_K).argmax(axis=1)
    return seen.values(sentences.sentence) | {
        "word": seen.label(sentences.word),
        "related": list(sentences.related),
        "weights": _rounded(row_HK),  # (heads, n): the word's row, of each head
        "far": _rounded(row_HK[:, far_K].sum(axis=1)),
        "most_far": [seen.view.keys[index].label if far_K.any() else "" for index in most],
        "on_related": _rounded(row_HK[:, related].sum(axis=1)),
        "even_share": round(float(far_K.mean()), _DIGITS),  # what a head that attends to all words equally gives them
    }


def _figure4(attend: Attend, sentences: Sentences, say: Say) -> Values:
    seen = attend(sentences.anaphora)
    rows, antecedent = seen.rows_of(sentences.anaphor), seen.rows_of(sentences.antecedent)
    row_HK = seen.weights[:, rows].mean(axis=1)
    on_antecedent = row_HK[:, antecedent].sum(axis=1)
    heads = [int(head) for head in np.argsort(-on_antecedent, kind="stable")[:2]]
    return seen.values(sentences.anaphora) | {
        "word": seen.label(sentences.anaphor),
        "antecedent": sentences.antecedent,
        "heads": [head + 1 for head in heads],
        "weights": _rounded(seen.weights[heads]),  # (2, n, n)
        "on_antecedent": _rounded(on_antecedent),
        "even_share": round(len(antecedent) / row_HK.shape[1], _DIGITS),
        "entropy": _rounded(entropy_bits(row_HK)),
        "usual_entropy": _rounded(entropy_bits(seen.weights).mean(axis=-1)),
    }


def structural_heads(weights: np.ndarray, scores: Sequence[float]) -> list[int]:
    """Returns the head with the highest score, and the one with the highest score times its difference from that head.

    The difference is 1 minus the weight that both give to the same words, averaged over rows.

    Args:
        weights: (heads, n, n).
        scores: one per head.
    """
    first = int(np.argmax(scores))
    shared = np.minimum(weights, weights[first]).sum(axis=-1).mean(axis=-1)
    other = np.array(scores, dtype=float) * (1 - shared)
    other[first] = -np.inf
    return [first, int(np.argmax(other))] if len(scores) > 1 else [first]


def _figure5(attend: Attend, sentences: Sentences, say: Say) -> Values:
    seen = attend(sentences.anaphora)
    own = {name: values[seen.layer - 1] for name, values in vars(head_statistics(seen.view)).items()}
    scores = own["peak"] - np.maximum.reduce([own["previous"], own["diagonal"], own["next"]])
    heads = structural_heads(seen.weights, scores.tolist())
    return seen.values(sentences.anaphora) | {
        "heads": [head + 1 for head in heads],
        "weights": _rounded(seen.weights[heads]),
        "scores": _rounded(scores),
        "statistics": {name: _rounded(values) for name, values in own.items()},
    }


def _relations(model: Path, sentences: Sentences, trees: Sequence[Path], most: int, say: Say) -> Values:
    translator = Translator.load(model, engine="torch")

    def attend(sentence: str) -> View:
        return view(translator.attend(sentence, "."), "encoder", words=True)  # a target, so that none is searched for

    found = score_heads(read_normalised(trees), attend, most, say)
    if not found["relations"]:
        raise DataError(
            f"{', '.join(map(str, trees))}: {counted(found['sentences'], 'sentence')} of {LENGTHS[0]} to {LENGTHS[-1]} "
            f"words, and no relation is in {FEWEST_CASES} places of each half. Give a larger treebank, or a larger "
            "--max-sentences."
        )
    shown = []
    for name in heads_to_show(found["relations"]):
        sentence = sentences.sentence if name == DISTANT else sentences.anaphora
        chosen = found["relations"][name]
        chosen = chosen.get("elsewhere", chosen)
        seen = attend(sentence)
        layer, head = chosen["layer"], chosen["head"]
        words = [unit.label for unit in seen.queries]
        weights = [_rounded(seen.weights[layer - 1, head - 1].astype(np.float64))]
        values = {"relation": name, "sentence": sentence, "words": words, "layer": layer, "heads": [head]}
        values |= {"weights": weights, "num_layers": seen.num_layers, "num_heads": seen.num_heads}
        shown.append(values)
    return found | {"shown": shown}


def _rounded(values: np.ndarray) -> Any:
    return np.round(values, _DIGITS).tolist()
