"""Trees for property tests."""

from hypothesis import strategies as st

from transduce.treebank import Leaf, Tree

# Whatever can be written in brackets: no round bracket, no white space of ASCII, no half of a surrogate pair.
atoms = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="() \t\n\r\x0b\x0c"), min_size=1, max_size=6
)
labels = st.sampled_from(["S", "NP", "VP", "X"]) | atoms
leaves = st.builds(Leaf, tag=st.sampled_from(["NN", "XX", "-LRB-"]) | atoms, word=atoms)
nodes = st.recursive(
    leaves, lambda inner: st.builds(Tree, labels, st.lists(inner, min_size=1, max_size=3).map(tuple)), max_leaves=12
)
trees = st.builds(Tree, labels, st.lists(nodes, min_size=1, max_size=3).map(tuple))
