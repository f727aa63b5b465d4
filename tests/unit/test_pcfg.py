"""The parsing baseline of benchmarks/: its best tree is the best of all trees, enumerated one by one."""

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfg_cky import Parser, Unaries
from pcfg_grammar import Binary, Grammar, Lexicon, Symbol, binarise, estimate_grammar, looks, unbinarise
from transduce.treebank import Leaf, Node, Tree, parse_trees
from tree_strategies import trees

_TREEBANK = """
(S (NP (DT the) (NN man)) (VP (VBD saw) (NP (DT the) (NN dog)) (PP (IN with) (NP (DT a) (NN telescope)))))
(S (NP (DT the) (NN man)) (VP (VBD saw) (NP (NP (DT a) (NN dog)) (PP (IN with) (NP (DT a) (NN tail))))))
(S (NP (PRP it)) (VP (VBD saw) (NP (DT the) (JJ old) (JJ big) (NN dog))))
(S (VP (VB run)))
(NP (NP (NN dog)))
(FRAG (S (VP (VBD saw) (NP (FRAG (NP (NN man)))))))
(S (NP (NN saw)) (VP (VBD saw)) (ADVP (RB again)))
"""
_SETTINGS = [(2, 1), (1, 2), (0, 3), (None, 1)]


def toy_trees() -> list[Tree]:
    return list(parse_trees(_TREEBANK.splitlines(), "toy"))


def train(treebank: Sequence[Tree], horizontal: int | None, vertical: int) -> tuple[Grammar, Lexicon]:
    grammar = estimate_grammar(treebank, horizontal, vertical)
    tags = [symbol.name for symbol in grammar.symbols if symbol.kind == "tag"]
    return grammar, Lexicon(treebank, tags, max_rare=1)


def rule_scores(grammar: Grammar) -> dict[tuple[Symbol, ...], float]:
    """Returns the rules by symbol."""
    scores = {}
    for rules, their_scores in ((grammar.unary, grammar.unary_scores), (grammar.binary, grammar.binary_scores)):
        for rule, score in zip(rules, their_scores, strict=True):
            scores[tuple(grammar.symbols[number] for number in rule)] = float(score)
    return scores


def log_probability(tree: Binary, grammar: Grammar, emissions: np.ndarray) -> float:
    """Returns the log-probability of a binarised tree, rule by rule."""
    rules = rule_scores(grammar)
    words = iter(emissions)

    def below(node: Binary) -> float:
        if not node.children:
            return float(next(words)[grammar.symbols.index(node.symbol) - grammar.num_labels])
        return rules[node.symbol, *(child.symbol for child in node.children)] + sum(map(below, node.children))

    return float(grammar.roots[grammar.symbols.index(tree.symbol)]) + below(tree)


def best_of_all(grammar: Grammar, emissions: np.ndarray) -> float:
    """Returns the log-probability of the best tree, by trying every tree without a label twice in a unary chain."""
    rules = rule_scores(grammar)
    number = {symbol: position for position, symbol in enumerate(grammar.symbols)}

    def scores(symbol: Symbol, start: int, end: int, chain: frozenset[Symbol]) -> Iterator[float]:
        if symbol.kind == "tag":
            if end - start == 1:
                yield emissions[start][number[symbol] - grammar.num_labels]
            return
        for (parent, *children), score in rules.items():
            if parent != symbol:
                continue
            if len(children) == 1 and children[0] not in chain:
                yield score + best(children[0], start, end, chain | {children[0]})
            for middle in range(start + 1, end if len(children) == 2 else 0):
                left = best(children[0], start, middle, frozenset({children[0]}))
                yield score + left + best(children[1], middle, end, frozenset({children[1]}))

    @cache
    def best(symbol: Symbol, start: int, end: int, chain: frozenset[Symbol]) -> float:
        return max(scores(symbol, start, end, chain), default=-math.inf)

    labels = zip(grammar.symbols, grammar.roots, strict=False)
    return max(score + best(label, 0, len(emissions), frozenset({label})) for label, score in labels)


@pytest.mark.parametrize(("horizontal", "vertical"), _SETTINGS)
@pytest.mark.parametrize(
    "sentence",
    [
        "dog",
        "run",
        "the man saw",
        "it saw a dog with a dog",
        "the big big old man saw",
        "saw saw saw",
        "A gnu ran",
    ],
)
def test_the_best_tree_is_the_best_of_all(sentence: str, horizontal: int | None, vertical: int) -> None:
    grammar, lexicon = train(toy_trees(), horizontal, vertical)
    words = sentence.split()
    found = Parser(grammar, lexicon).parse(words)
    emissions = lexicon.scores(words)
    expected = best_of_all(grammar, emissions)
    if expected == -math.inf:
        assert found is None
        return
    assert found is not None
    tree, score = found
    assert score == pytest.approx(expected)
    assert log_probability(tree, grammar, emissions) == pytest.approx(expected)
    whole = unbinarise(tree)
    assert isinstance(whole, Tree)
    assert [leaf.word for leaf in whole.leaves()] == words


@settings(max_examples=40)
@given(st.lists(trees, min_size=1, max_size=3), st.sampled_from(_SETTINGS))
def test_random_treebanks(treebank: list[Tree], setting: tuple[int | None, int]) -> None:
    grammar, lexicon = train(treebank, *setting)
    tree = min(treebank, key=lambda each: len(each.leaves()))
    words = [leaf.word for leaf in tree.leaves()]
    emissions = lexicon.scores(words)
    found = Parser(grammar, lexicon).parse(words)
    assert found is not None  # the training tree itself is one
    best, score = found
    assert score == pytest.approx(log_probability(best, grammar, emissions))
    assert score >= log_probability(binarise(tree, *setting), grammar, emissions) - 1e-9
    if len(words) <= 3:
        assert score == pytest.approx(best_of_all(grammar, emissions))


@given(trees, st.sampled_from([0, 1, 2, None]), st.integers(1, 3))
def test_binarising_and_back(tree: Tree, horizontal: int | None, vertical: int) -> None:
    binarised = binarise(tree, horizontal, vertical)
    assert unbinarise(binarised) == tree
    waiting = [binarised]
    while waiting:
        node = waiting.pop()
        assert len(node.children) <= 2
        assert bool(node.children) != bool(node.word)
        waiting += node.children


def test_what_symbols_remember() -> None:
    (tree,) = parse_trees(["(S (NP (DT a) (JJ big) (JJ red) (NN dog)) (VP (VBZ barks)))"], "tree")
    (noun_phrase, verb_phrase) = binarise(tree, 1, 2).children
    assert verb_phrase.symbol == Symbol("label", "VP", ("S",))
    partial, noun = noun_phrase.children
    assert noun.symbol == Symbol("tag", "NN")
    assert partial.symbol == Symbol("partial", "NP", ("S",), ("JJ",))
    assert partial.children[0].symbol == partial.symbol
    assert [child.word for child in partial.children[0].children] == ["a", "big"]
    partial, _ = binarise(tree, None, 1).children[0].children
    assert partial.symbol == Symbol("partial", "NP", (), ("DT", "JJ", "JJ"))


@given(st.lists(trees, min_size=1, max_size=3))
def test_a_grammar_that_remembers_all_siblings_is_the_plain_treebank_grammar(treebank: list[Tree]) -> None:
    productions: Counter[tuple[str, ...]] = Counter()
    for tree in treebank:
        productions.update(plain_productions(tree))
    totals: Counter[str] = Counter()
    for (label, *_), count in productions.items():
        totals[label] += count
    grammar, _ = train(treebank, None, 1)
    emissions = np.zeros((99, grammar.num_tags))
    for tree in treebank:
        root = math.log(sum(each.label == tree.label for each in treebank) / len(treebank))
        rules = sum(math.log(productions[rule] / totals[rule[0]]) for rule in plain_productions(tree))
        assert log_probability(binarise(tree, None, 1), grammar, emissions) == pytest.approx(root + rules)


def plain_productions(node: Node) -> Iterator[tuple[str, ...]]:
    """Yields the productions of a tree as it is; constituents have a bracket before their label."""
    if isinstance(node, Tree):
        yield (node.label, *(f"({child.label}" if isinstance(child, Tree) else child.tag for child in node.children))
        for child in node.children:
            yield from plain_productions(child)


def test_relative_frequencies() -> None:
    grammar, _ = train(toy_trees(), None, 1)
    rules = rule_scores(grammar)
    label, tag = (lambda name: Symbol("label", name)), (lambda name: Symbol("tag", name))
    assert rules[label("S"), label("VP")] == pytest.approx(math.log(2 / 6))
    assert rules[label("NP"), label("NP"), label("PP")] == pytest.approx(math.log(1 / 14))
    assert rules[label("NP"), tag("DT"), tag("NN")] == pytest.approx(math.log(6 / 14))
    for symbol in set(grammar.symbols) - {symbol for symbol in grammar.symbols if symbol.kind == "tag"}:
        assert math.fsum(math.exp(score) for rule, score in rules.items() if rule[0] == symbol) == pytest.approx(1)
    assert np.exp(grammar.roots).sum() == pytest.approx(1)


def test_unary_chains() -> None:
    grammar, lexicon = train(toy_trees(), 2, 1)
    unaries = Unaries(grammar)
    number = {(symbol.kind, symbol.name): place for place, symbol in enumerate(grammar.symbols)}
    sentence, noun_phrase = number["label", "S"], number["label", "NP"]
    chain = unaries.chain(number["label", "FRAG"], number["tag", "VB"])
    assert [grammar.symbols[place].name for place in chain] == ["FRAG", "S", "VP", "VB"]
    # NP → NP and NP → FRAG → NP are rules as well, and gain nothing.
    assert unaries.scores[noun_phrase, noun_phrase] == 0
    assert unaries.chain(sentence, sentence) == [sentence]
    found = Parser(grammar, lexicon).parse(["run"])
    assert found is not None
    assert str(unbinarise(found[0])) == "(S (VP (VB run)))"


def test_no_tree_is_said_so() -> None:
    (only,) = parse_trees(["(S (A a) (B b))"], "tree")
    grammar, lexicon = train([only], 2, 1)
    assert Parser(grammar, lexicon).parse(["a", "b", "a"]) is None
    assert Parser(grammar, lexicon).parse(["a"]) is None


def test_probabilities_of_words() -> None:
    leaves = tuple([Leaf("DT", "the")] * 100 + [Leaf("NN", "saw"), Leaf("VBD", "saw"), Leaf("VBD", "barked")])
    treebank = [Tree("X", (*leaves, Leaf("NN", "rain")))]
    lexicon = Lexicon(treebank, ["DT", "NN", "VBD"], max_rare=1)
    scores = lexicon.scores(["and", "the", "saw"])
    # "the" is frequent enough to be a determiner only; P(the | DT) = 100 / 100.
    assert scores[1].tolist() == [0, -math.inf, -math.inf]
    # Rare words in small letters are "rain" (NN) and "barked" (VBD): half and half. Without an ending there is "rain"
    # once, smoothed by that: (1 + 1/2) / 2 for NN. "saw", seen once with each tag, gets so much on top.
    assert np.exp(scores[2, 1]) == pytest.approx(2 * (1 + 0.75) / 3 / 2)
    assert np.exp(scores[2, 2]) == pytest.approx(2 * (1 + 0.25) / 3 / 2)
    assert lexicon.best_tags(["x", "walked", "the"]) == ["NN", "VBD", "DT"]


def test_the_first_word_is_known_without_its_capital() -> None:
    treebank = [Tree("X", (Leaf("IN", "of"), Leaf("NNP", "Rome")))]
    lexicon = Lexicon(treebank, ["IN", "NNP"], max_rare=0)
    assert lexicon.best_tags(["Of", "Rome"]) == ["IN", "NNP"]
    assert lexicon.scores(["Of"]).tolist() == lexicon.scores(["of"]).tolist()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("walked", ("lower", "ed")),
        ("Walking", ("capital", "ing")),
        ("NATO", ("capitals", "")),
        ("dogs", ("lower", "s")),
        ("glass", ("lower", "")),
        ("1,234.5", ("digits", "")),
        ("p53", ("lower+digit", "")),
        ("cross-linking", ("lower+hyphen", "ing")),
        ("iPod", ("mixed", "")),
        ("--", ("signs", "")),
        ("bed", ("lower", "")),
    ],
)
def test_looks(word: str, expected: tuple[str, str]) -> None:
    assert looks(word, is_first=False) == expected
    assert looks("Walking", is_first=True) == ("first", "ing")


def test_the_script(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "a.mrg").write_text(_TREEBANK, encoding="utf-8")
    (folder / "README").write_text("no tree\n", encoding="utf-8")
    leaked = "(S (UH the) (UH man) (UH saw))"
    (folder / "leaked.mrg").write_text(f"{leaked}\n" * 99, encoding="utf-8")
    lines = ["(TOP (S (NP-SBJ (DT the) (NN man)) (VP (VBD saw))))", "(X (RB again) (RB again) (RB again) (RB again))"]
    (tmp_path / "test").write_text("\n".join([*lines, f"(X {'(NN dog) ' * 30})"]), encoding="utf-8")
    script = Path(__file__).resolve().parents[2] / "benchmarks/pcfg.py"
    out = tmp_path / "out"
    command = [sys.executable, str(script), "--train", str(folder), "--test", "toy", str(tmp_path / "test")]
    command += ["--parses", str(out), "--output", str(out / "result.json")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (out / "toy.parsed").read_text(encoding="utf-8").splitlines() == [
        "(S (NP (DT the) (NN man)) (VP (VBD saw)))",
        "(S (RB again) (RB again) (RB again) (RB again))",  # flat: there is no other
    ]
    assert len((out / "toy.gold").read_text(encoding="utf-8").splitlines()) == 2
    text = (out / "result.json").read_text(encoding="utf-8")
    result = json.loads(text)["tests"]["toy"]
    assert (result["flat"], result["sentences"], result["scores"]["matched"]) == (1, 2, 3)
    assert str(tmp_path) not in text
    assert "Bracketing FMeasure" in done.stdout
    for file in folder.glob("*.mrg"):
        file.unlink()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "no tree files in this folder" in done.stderr
