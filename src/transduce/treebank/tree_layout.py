"""The layout of a drawn tree. The caller chooses the unit: columns of a terminal, or pixels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from transduce.treebank.trees import Leaf, Node


@dataclass(frozen=True, slots=True)
class Box:
    """A node and its position.

    Attributes:
        node: The node.
        centre: The centre of its text, from the left edge of the picture.
        left: The left edge of the area of its subtree. Areas do not overlap.
        span: The width of that area.
        level: 0 for leaves; for a constituent, one more than its highest child: phrases are close to their words.
        children: The boxes of its children.
    """

    node: Node
    centre: int
    left: int
    span: int
    level: int
    children: tuple["Box", ...] = ()

    def walk(self) -> Iterator["Box"]:
        """Yields this box and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def lay_out(node: Node, measure: Callable[[str], int], gap: int, left: int = 0) -> Box:
    """Returns the boxes of a node and of all below it, subtrees side by side.

    Args:
        node: What to draw.
        measure: Returns the width of a text.
        gap: Space between neighbours.
        left: The left edge.
    """
    span = _span(node, measure, gap)
    if isinstance(node, Leaf):
        return Box(node, left + span // 2, left, span, 0)
    width_below = _span_of_all(node.children, measure, gap)
    at = left + (span - width_below) // 2  # the label may be wider than its children
    children: list[Box] = []
    for child in node.children:
        children.append(lay_out(child, measure, gap, at))
        at += children[-1].span + gap
    width = measure(node.label)
    middle = (children[0].centre + children[-1].centre) // 2
    centre = min(max(middle, left + width // 2), left + span - (width - width // 2))
    return Box(node, centre, left, span, 1 + max(child.level for child in children), tuple(children))


def _span(node: Node, measure: Callable[[str], int], gap: int) -> int:
    if isinstance(node, Leaf):
        return max(measure(node.tag), measure(node.word))
    return max(measure(node.label), _span_of_all(node.children, measure, gap))


def _span_of_all(nodes: tuple[Node, ...], measure: Callable[[str], int], gap: int) -> int:
    return sum(_span(node, measure, gap) for node in nodes) + gap * (len(nodes) - 1)
