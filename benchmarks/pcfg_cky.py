"""The most probable tree of a sentence under a binarised PCFG: exact CKY (nothing is pruned), in numpy.

Of a span, all splits and all rules that can apply are tried at once. What can apply is known beforehand: the left child
must have been found from the span's first word on, the right child up to its last. Only scores are kept; the best rules
are looked for again, along the best tree alone.
"""

from collections.abc import Sequence

import numpy as np

from pcfg_grammar import Binary, Grammar, Lexicon


class Unaries:
    """The most probable chain of unary rules between any two symbols.

    Attributes:
        scores: Of the best chain from a label down to a label or tag, labels × (labels + tags); 0 to a label itself.
        before: The symbol above the last in that chain, likewise; -1 where there is none.
    """

    def __init__(self, grammar: Grammar) -> None:
        num_labels = grammar.num_labels
        rules = np.full((num_labels, num_labels + grammar.num_tags), -np.inf)
        rules[grammar.unary[:, 0], grammar.unary[:, 1]] = grammar.unary_scores
        self.scores = np.full_like(rules, -np.inf)
        self.before = np.full(rules.shape, -1)
        for label in range(num_labels):
            self._search(label, rules)

    def chain(self, label: int, last: int) -> list[int]:
        """Returns the symbols from a label down to `last`, both included."""
        symbols = [last]
        while symbols[-1] != label:
            symbols.append(int(self.before[label, symbols[-1]]))
        return symbols[::-1]

    def _search(self, label: int, rules: np.ndarray) -> None:
        """Finds the best chains from a label, the most probable first (Dijkstra 1959): no rule is more than certain."""
        scores, before = self.scores[label], self.before[label]
        scores[label] = 0.0
        is_open = np.ones(len(scores), dtype=bool)
        num_labels = len(rules)
        while True:
            waiting = np.where(is_open[:num_labels], scores[:num_labels], -np.inf)
            symbol = int(waiting.argmax())
            if waiting[symbol] == -np.inf:
                return
            is_open[symbol] = False
            through = scores[symbol] + rules[symbol]
            better = is_open & (through > scores)
            scores[better], before[better] = through[better], symbol


class _Chain:
    """Chains down to symbols of one kind, as a list: what is applied to all labels of a span at once."""

    def __init__(self, scores: np.ndarray) -> None:
        self.parents, self.children = np.nonzero(scores > -np.inf)  # ordered by parent
        self.scores = scores[self.parents, self.children]
        self.starts = _starts(self.parents)

    def apply(self, below: np.ndarray, above: np.ndarray) -> None:
        """Writes the best score of each label to `above`, given those of what the chains end with."""
        if len(self.parents):
            best = np.maximum.reduceat(below[self.children] + self.scores, self.starts)
            above[self.parents[self.starts]] = best


def _starts(numbers: np.ndarray) -> np.ndarray:
    """Returns where each run of equal numbers begins."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))


class _Chart:
    """What was found so far: the score of each symbol's best tree over each span, minus infinity where there is none.

    Attributes:
        left: For each first word, widths × symbols: the spans that begin there.
        right: For each end, first words × labels and tags: the same spans, as right children, which are never partial.
        from_left: For each first word, which symbols any span has that begins there.
        from_right: For each end, which labels and tags any span has that ends there.
        before_unaries: For each span, as (first word, end), scores of labels whose first rule has two children.
    """

    def __init__(self, grammar: Grammar, num_words: int) -> None:
        num_symbols, num_right = len(grammar.symbols), grammar.num_labels + grammar.num_tags
        self.left = [np.full((num_words - start + 1, num_symbols), -np.inf) for start in range(num_words)]
        self.right = [np.full((end, num_right), -np.inf) for end in range(num_words + 1)]
        self.from_left = np.zeros((num_words, num_symbols), dtype=bool)
        self.from_right = np.zeros((num_words + 1, num_right), dtype=bool)
        self.before_unaries: dict[tuple[int, int], np.ndarray] = {}

    def enter(self, start: int, end: int) -> None:
        """Makes the span known, whose scores stand in `left`, as a child of others."""
        found = self.left[start][end - start]
        num_right = self.from_right.shape[1]
        self.right[end][start] = found[:num_right]
        self.from_left[start] |= found > -np.inf
        self.from_right[end] |= found[:num_right] > -np.inf


class Parser:
    """Finds the most probable trees."""

    def __init__(self, grammar: Grammar, lexicon: Lexicon) -> None:
        self._grammar = grammar
        self._lexicon = lexicon
        self._unaries = Unaries(grammar)
        self._to_labels = _Chain(self._unaries.scores[:, : grammar.num_labels])
        self._to_tags = _Chain(self._unaries.scores[:, grammar.num_labels :])
        self._parents, self._left, self._right = (np.ascontiguousarray(column) for column in grammar.binary.T)
        self._rule_bounds = np.searchsorted(self._parents, np.arange(len(grammar.symbols) + 1))

    def parse(self, words: Sequence[str]) -> tuple[Binary, float] | None:
        """Returns the most probable tree over the words and its log-probability; `None` if the grammar has no tree."""
        chart = _Chart(self._grammar, len(words))
        emissions = self._lexicon.scores(words)
        for position in range(len(words)):
            self._fill_word(chart, position, emissions[position])
        for width in range(2, len(words) + 1):
            for start in range(len(words) - width + 1):
                self._fill_span(chart, start, start + width)
        scores = self._grammar.roots + chart.left[0][len(words), : self._grammar.num_labels]
        best = int(scores.argmax())
        if scores[best] == -np.inf:
            return None
        return self._build(chart, best, 0, len(words), words), float(scores[best])

    def _fill_word(self, chart: _Chart, position: int, emissions: np.ndarray) -> None:
        """Fills the span of one word: its tags, and what stands above them."""
        scores = chart.left[position][1]
        num_labels = self._grammar.num_labels
        scores[num_labels : num_labels + self._grammar.num_tags] = emissions
        self._to_tags.apply(emissions, scores[:num_labels])
        chart.enter(position, position + 1)

    def _fill_span(self, chart: _Chart, start: int, end: int) -> None:
        """Fills the span of two words or more: the best split for each rule, the best rule for each symbol."""
        can_apply = chart.from_left[start].take(self._left) & chart.from_right[end].take(self._right)
        rules = np.flatnonzero(can_apply)
        if not len(rules):
            return
        by_split = chart.left[start][1 : end - start].take(self._left[rules], axis=1)  # splits × rules
        by_split += chart.right[end][start + 1 : end].take(self._right[rules], axis=1)
        by_rule = by_split.max(axis=0) + self._grammar.binary_scores[rules]
        parents = self._parents[rules]
        firsts = _starts(parents)
        scores = chart.left[start][end - start]
        scores[parents[firsts]] = np.maximum.reduceat(by_rule, firsts)
        labels = scores[: self._grammar.num_labels]
        chart.before_unaries[start, end] = labels.copy()
        self._to_labels.apply(chart.before_unaries[start, end], labels)
        chart.enter(start, end)

    def _build(self, chart: _Chart, symbol: int, start: int, end: int, words: Sequence[str]) -> Binary:
        """Returns the best tree of a symbol over a span."""
        symbols = self._grammar.symbols
        chain = self._chain(chart, symbol, start, end)
        if end - start == 1:
            node = Binary(symbols[chain[-1]], word=words[start])
        else:
            left, right, middle = self._best_rule(chart, chain[-1], start, end)
            children = (
                self._build(chart, left, start, middle, words),
                self._build(chart, right, middle, end, words),
            )
            node = Binary(symbols[chain[-1]], children)
        for above in reversed(chain[:-1]):
            node = Binary(symbols[above], (node,))
        return node

    def _chain(self, chart: _Chart, symbol: int, start: int, end: int) -> list[int]:
        """Returns the best unary chain from a symbol, down to a tag or to what has two children."""
        num_labels, num_tags = self._grammar.num_labels, self._grammar.num_tags
        if symbol >= num_labels:
            return [symbol]
        if end - start == 1:
            below = chart.left[start][1][num_labels : num_labels + num_tags]
            last = num_labels + int((self._unaries.scores[symbol, num_labels:] + below).argmax())
        else:
            last = int((self._unaries.scores[symbol, :num_labels] + chart.before_unaries[start, end]).argmax())
        return self._unaries.chain(symbol, last)

    def _best_rule(self, chart: _Chart, symbol: int, start: int, end: int) -> tuple[int, int, int]:
        """Returns the children and the split of a symbol's best binary rule over a span."""
        rules = slice(*self._rule_bounds[symbol : symbol + 2])
        left, right = self._left[rules], self._right[rules]
        by_split = chart.left[start][1 : end - start][:, left] + chart.right[end][start + 1 : end][:, right]
        split, rule = divmod(int((by_split + self._grammar.binary_scores[rules]).argmax()), len(left))
        return int(left[rule]), int(right[rule]), start + 1 + split
