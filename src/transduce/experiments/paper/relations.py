"""Relations between the words of a sentence, read off its constituency tree: what heads are scored on.

A constituent's head word is found by rules like those of Magerman (1995) and Collins (1999), but the head of a verb
phrase with auxiliaries is the main verb. Pronouns have their antecedents by the algorithm of Hobbs (1978), within the
sentence, where number and a short list of nouns for persons agree: it is right for most pronouns, not for all. Trees
are normalised: without traces, function tags and top label (`transduce.treebank.normalise`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from transduce.treebank import Leaf, Node, Tree

FAR_WORDS = 3  # a word that is more words away than this is distant
ANTECEDENT = "antecedent"
DISTANT = "distant"  # a relation of another kind, over more than `FAR_WORDS`

_VERBS = ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ")
_AUXILIARIES = (*_VERBS, "MD", "TO")
_NOUNS = ("NN", "NNS", "NNP", "NNPS")
_ADJECTIVES = ("JJ", "JJR", "JJS")
_CLAUSES = ("S", "SINV", "SQ")
# Labels of the children that may be the head, best first, and whether the last such child is it.
_RULES: Mapping[str, tuple[tuple[str, ...], bool]] = {
    **dict.fromkeys(_CLAUSES, (("VP", *_CLAUSES, "ADJP", "NP"), True)),
    "VP": (("VP", *_VERBS, "MD", "TO", "ADJP", "NP"), False),
    "SBAR": (("S", "SQ", "SINV", "SBAR", "IN"), True),
    "PP": (("IN", "TO", "PP"), False),
    "ADJP": ((*_ADJECTIVES, "VBN", "VBG", "ADJP"), True),
    "ADVP": (("RB", "RBR", "RBS", "ADVP"), True),
    "QP": (("CD",), True),
}
# Pronouns that may stand for the same, and the nouns that only "he" and "she" stand for where they are no names.
_PRONOUNS: Mapping[str, str] = {
    word: words.split()[0]
    for words in (
        "it its itself",
        "he him his himself",
        "she her hers herself",
        "they them their theirs themselves",
    )
    for word in words.split()
}
_NOUNS_OF_PERSONS = """
actor artist author baby boy boyfriend brother captain chairman child dad daughter director doctor driver father
friend gentleman girl girlfriend guy husband king kid lady leader man minister mother mum officer person player
poet president queen singer sister soldier son student teacher wife woman worker writer
"""
_PERSONS = frozenset(_NOUNS_OF_PERSONS.split())


@dataclass(frozen=True)
class Relation:
    """Two words of a sentence, as numbers of leaves from 0."""

    name: str
    dependent: int
    head: int


def relations(tree: Tree) -> list[Relation]:
    """Returns the relations of a normalised tree; those that are distant appear a second time, as `DISTANT`."""
    sentence = _Sentence(tree)
    near = [each for number in range(len(sentence.nodes)) for each in sentence.relations_at(number)]
    far = [Relation(DISTANT, r.dependent, r.head) for r in near if abs(r.dependent - r.head) > FAR_WORDS]
    return [*near, *far, *sentence.antecedents()]


class _Sentence:
    """A tree whose nodes have numbers, in the order of reading, so that each knows its parent."""

    def __init__(self, tree: Tree) -> None:
        self.nodes: list[Node] = []
        self.parents: list[int] = []
        self.children: list[list[int]] = []
        self.leaf_numbers: dict[int, int] = {}
        self.leaves = tree.leaves()
        self._add(tree, -1)

    def _add(self, node: Node, parent: int) -> int:
        number = len(self.nodes)
        self.nodes.append(node)
        self.parents.append(parent)
        self.children.append([])
        if isinstance(node, Leaf):
            self.leaf_numbers[number] = len(self.leaf_numbers)
        else:
            for child in node.children:
                self.children[number].append(self._add(child, number))
        return number

    def label(self, number: int) -> str:
        """Returns a constituent's label or a leaf's tag."""
        node = self.nodes[number]
        return node.tag if isinstance(node, Leaf) else node.label

    def head_word(self, number: int) -> int:
        """Returns the number of the leaf that is the head of a constituent."""
        while number not in self.leaf_numbers:
            number = self._head_child(number)
        return self.leaf_numbers[number]

    def _head_child(self, number: int) -> int:
        children, label = self.children[number], self.label(number)
        if label in ("NP", "NX", "WHNP"):
            nouns = [child for child in children if self.label(child) in _NOUNS]
            phrases = [child for child in children if self.label(child) in ("NP", "NX")]
            return nouns[-1] if nouns else phrases[0] if phrases else children[-1]
        wanted, last = _RULES.get(label, ((), True))
        for each in wanted:
            if found := [child for child in children if self.label(child) == each]:
                return found[-1 if last else 0]
        return children[-1 if last else 0]

    def relations_at(self, number: int) -> Iterator[Relation]:
        """Yields the relations between the children of a constituent."""
        label, children = self.label(number), self.children[number]
        if number in self.leaf_numbers:
            return
        labels, head = [self.label(child) for child in children], self.head_word(number)

        def to(name: str, child: int, other: int = head) -> Iterator[Relation]:
            dependent = self.head_word(child)
            if dependent != other:
                yield Relation(name, dependent, other)

        if label in _CLAUSES and "VP" in labels:
            subjects = [child for child in children[: labels.index("VP")] if self.label(child) == "NP"]
            for child in subjects[-1:]:
                yield from to("subject", child, self.head_word(children[labels.index("VP")]))
        for child, of in zip(children, labels, strict=True):
            if label == "VP" and of in _AUXILIARIES and "VP" in labels:
                yield from to("auxiliary", child)
            elif label == "VP" and of == "NP" and "VP" not in labels:
                yield from to("object", child)
            elif label in ("NP", "VP") and of == "PP":
                yield from to("preposition to what it belongs to", child)
            elif label == "PP" and of == "NP":
                yield Relation("preposition to its noun", head, self.head_word(child))
            elif label == "NP" and of in ("DT", "PRP$", *_ADJECTIVES):
                names = {"DT": "determiner", "PRP$": "possessive pronoun"}
                yield from to(names.get(of, "adjective"), child)

    def antecedents(self) -> Iterator[Relation]:
        """Yields the pronouns whose antecedent Hobbs' algorithm finds in the sentence."""
        for number, leaf in self.leaf_numbers.items():
            node = self.leaves[leaf]
            pronoun = _PRONOUNS.get(node.word.lower()) if node.tag in ("PRP", "PRP$") else None
            if pronoun is None:
                continue
            found = next((np for np in self._proposed(number) if self._agrees(np, pronoun)), None)
            if found is not None and self.head_word(found) < leaf:
                yield Relation(ANTECEDENT, leaf, self.head_word(found))

    def _proposed(self, pronoun: int) -> Iterator[int]:
        """Yields noun phrases before a pronoun in Hobbs' order: his steps 1 to 7."""
        # A possessive pronoun is itself a noun phrase in Hobbs' trees; here it is a leaf of one.
        start = pronoun if self.label(pronoun) == "PRP$" else self._climbed(pronoun, ("NP",))[0]
        if start is None:
            return
        top, below = self._climbed(start)
        first = True
        while top is not None:
            before = self.children[top][: self.children[top].index(below)]
            if self.label(top) == "NP" and not first and self.head_word(top) != self.head_word(below):
                yield top
            for np in self._breadth_first(before):
                if not first or self._between(np, top):
                    yield np
            first = False
            top, below = self._climbed(top)

    def _climbed(self, number: int, labels: tuple[str, ...] = ("NP", *_CLAUSES)) -> tuple[int | None, int]:
        """Returns the next constituent above with one of some labels, and the child of it on the way."""
        below, above = number, self.parents[number]
        while above >= 0 and self.label(above) not in labels:
            below, above = above, self.parents[above]
        return (above if above >= 0 else None), below

    def _between(self, np: int, top: int) -> bool:
        """Returns whether a noun phrase or clause lies between a noun phrase and a node above it."""
        return self._climbed(np)[0] != top

    def _breadth_first(self, numbers: list[int]) -> Iterator[int]:
        """Yields the noun phrases among nodes and below them, from left to right, level by level."""
        level = numbers
        while level:
            yield from (each for each in level if self.label(each) == "NP")
            level = [child for each in level for child in self.children[each]]

    def _agrees(self, np: int, pronoun: str) -> bool:
        """Returns whether a noun phrase may be what "it", "he", "she" or "they" stands for."""
        labels = [self.label(child) for child in self.children[np]]
        if "CC" in labels and labels.count("NP") + sum(label in _NOUNS for label in labels) > 1:
            return pronoun == "they"
        head = self.leaves[self.head_word(np)]
        word = head.word.lower()
        if head.tag not in _NOUNS:
            return _PRONOUNS.get(word) == pronoun and head.tag == "PRP"
        if head.tag in ("NNS", "NNPS") or pronoun == "they":
            return pronoun == "they" and head.tag in ("NNS", "NNPS")
        return word not in _PERSONS if pronoun == "it" else head.tag == "NNP" or word in _PERSONS
