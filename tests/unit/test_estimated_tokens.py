"""How many tokens a text is taken to have, against tokenizers that were trained on text of its script."""

import random

import pytest

from transduce.serve.whole_texts import estimated_tokens, sampled_tokens
from transduce.text import SubwordTokenizer

_LETTERS = {
    "Latin": "etaoinshrdlucmfwypvbg",
    "German": "enisratdhulcgmobwfkzüäöß",
    "Cyrillic": "оеаинтсрвлкмдпуяыьгзб",
}
_FIRST_CHARACTERS = {"Chinese": 0x4E00, "Korean": 0xAC00, "rare Chinese": 0x20000}


def made_lines(script: str, chance: random.Random) -> list[str]:
    """Returns lines of made-up words, a few of them frequent, as in any language."""
    if script in _LETTERS:
        space, sizes = " ", (2, 3, 4, 5, 6, 7, 9)
        letters = _LETTERS[script]
    else:
        space, sizes = " " if script == "Korean" else "", (1, 2, 2, 3)
        letters = "".join(chr(_FIRST_CHARACTERS[script] + index) for index in range(1000))
    words = ["".join(chance.choices(letters, k=chance.choice(sizes))) for _ in range(2000)]
    frequencies = [1 / rank for rank in range(1, len(words) + 1)]
    return [space.join(chance.choices(words, frequencies, k=chance.randint(8, 20))) for _ in range(600)]


@pytest.mark.parametrize("script", [*_LETTERS, *_FIRST_CHARACTERS])
def test_the_estimate_is_within_a_factor_of_two(script: str) -> None:
    lines = made_lines(script, random.Random(1))
    tokenizer = SubwordTokenizer.train(lines[100:], algorithm="bpe", vocab_size=2000)
    held_out = lines[:100]
    num_tokens = sum(map(len, tokenizer.encode_batch(held_out)))
    assert num_tokens / 2 < sum(estimated_tokens(held_out)) < num_tokens * 2


def test_scripts_may_be_mixed() -> None:
    assert estimated_tokens(["", "abcd", "北京", "北京abcd", "abcdefgh é"]) == [1, 2, 3, 4, 3]


@pytest.mark.parametrize("vocab_size", [1100, 4000])  # short subwords, and long ones
@pytest.mark.parametrize("script", [*_LETTERS, *_FIRST_CHARACTERS])
def test_with_samples_the_estimate_is_close(script: str, vocab_size: int) -> None:
    """A list and a single long text; the second half is of other words, which samples of its beginning would miss."""
    lines = made_lines(script, random.Random(1))
    tokenizer = SubwordTokenizer.train(lines[100:], algorithm="bpe", vocab_size=vocab_size)
    texts = lines[:100] + [line[::-1] for line in lines[:100]]
    for each in (texts, [" ".join(texts)]):
        real = sum(map(len, tokenizer.encode_batch(each))) + len(each)  # each ends with EOS
        assert real / 1.15 < sampled_tokens(each, tokenizer) < real * 1.15


def test_samples_of_nothing_are_of_no_tokens() -> None:
    tokenizer = SubwordTokenizer.train(["a dog"] * 9, algorithm="bpe", vocab_size=300)
    assert sampled_tokens([""], tokenizer) == 0
