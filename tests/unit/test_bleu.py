"""BLEU in its several forms, chrF, the paper's tokens, and the doubts that an evaluation raises."""

import math
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.errors import EvaluationError
from transduce.evaluation import Evaluation, Score, Text, bleu, chrf, evaluate, paper_bleu, tokenized_bleu
from transduce.evaluation.paper_tokens import normalize_quotes, paper_tokens, split_compounds
from transduce.evaluation.sentence_scores import sentence_bleu, sentence_chrf


def test_bleu_by_hand() -> None:
    # Matches: 5 of 6 words, 3 of 5 pairs, 1 of 4 triples, and 0 of 3 quadruples, which smoothing counts as 1/2.
    hypothesis, reference = "the cat sat on a mat", "the cat lay on a mat"
    expected = 100 * (5 / 6 * 3 / 5 * 1 / 4 * 0.5 / 3) ** 0.25
    assert tokenized_bleu([hypothesis], [[reference]]).value == pytest.approx(expected)


@pytest.mark.parametrize("language", ["fr", "fr-CA", "fra_Latn"])
def test_the_papers_bleu_knows_a_language_by_any_code_of_it(language: str) -> None:
    """Of l' ami mange du pain, 4 of 5 words are right, 2 of 4 pairs, 1 of 3 triples, 0 of 2 quadruples (as 1/2)."""
    score = paper_bleu(["l'ami mange du pain"], [["l'eau mange du pain"]], language=language)
    assert score.value == pytest.approx(100 * (4 / 5 * 2 / 4 * 1 / 3 * 0.5 / 2) ** 0.25)
    assert "tok:moses-like-fr+" in score.signature


def test_brevity_penalty_by_hand() -> None:
    score = tokenized_bleu(["a b c d"], [["a b c d e f"]])
    assert score.value == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_same_text_scores_100_and_other_text_0() -> None:
    lines = ["The quick brown fox jumps over the lazy dog."] * 3
    for metric in (bleu, tokenized_bleu, paper_bleu, chrf):
        assert metric(lines, [lines]).value == pytest.approx(100)
        assert metric(["xxxx"] * 3, [lines]).value == pytest.approx(0, abs=1)


def test_each_bleu_sees_other_tokens() -> None:
    hypotheses, references = ["He said “well-known words”, yes."], [['He said "well-known words", no.']]
    scores = {
        "13a": bleu(hypotheses, references),
        "intl": bleu(hypotheses, references, tokenizer="intl"),
        "tokens": tokenized_bleu(hypotheses, references),
        "paper": paper_bleu(hypotheses, references, language="en"),
    }
    assert len({score.value for score in scores.values()}) == 4
    assert scores["paper"].value == max(score.value for score in scores.values())
    assert "tok:13a" in scores["13a"].signature
    assert "tok:intl" in scores["intl"].signature
    assert "tok:none" in scores["tokens"].signature
    assert "tok:moses-like-en+quotes+atat" in scores["paper"].signature


@pytest.mark.parametrize(
    ("hypothesis", "reference", "tokens"),
    [
        ("我们今天去公园。", "我们今天去了公园。", "zh"),
        ("今日は公園に行。", "今日は公園に行く。", "char"),
        ("วันนี้ไปดู", "วันนี้ไปสวน", "char"),
        ("오늘 공원에 간다.", "오늘 공원에 갔다.", "13a"),  # has spaces
        ("Das ist 公園, ja.", "Das ist das 公園, ja.", "13a"),
    ],
)
def test_a_script_without_spaces_has_its_own_tokenizer(hypothesis: str, reference: str, tokens: str) -> None:
    score = bleu([hypothesis], [[reference]])
    assert score == bleu([hypothesis], [[reference]], tokenizer=tokens)
    assert (f"tok:{tokens}|" in score.signature, score.name) == (True, f"BLEU, {tokens}")


def test_bleu_of_chinese_by_hand() -> None:
    """It has 8 characters of 9. Of its 7 pairs, 6 are in the reference, of 6 threes 4, and of 5 fours 2."""
    expected = 100 * math.exp(1 - 9 / 8) * (6 / 7 * 4 / 6 * 2 / 5) ** (1 / 4)
    assert bleu(["我们今天去公园。"], [["我们今天去了公园。"]]).value == pytest.approx(expected)
    # "API" is one word to "zh", and three characters.
    lengths = [bleu(["用API吧。"], [["用API吧。"]], tokenizer=name).detail for name in ("zh", "char")]
    assert ["hyp_len = 4" in lengths[0], "hyp_len = 6" in lengths[1]] == [True, True]


def test_a_tokenizer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(EvaluationError, match=r"'ja-mecab'.*pip install sacrebleu\[ja\]"):
        evaluate(Text("out", _PLAIN), [Text("ref", _PLAIN)], metrics=["bleu-ja-mecab"])


def test_lowercase_ignores_case() -> None:
    hypotheses, references = ["the cat sat on the mat"], [["The Cat sat on the Mat"]]
    for metric in (bleu, tokenized_bleu, paper_bleu, chrf):
        assert metric(hypotheses, references).value < 99
        assert metric(hypotheses, references, lowercase=True).value == pytest.approx(100)
    assert "case:lc" in bleu(hypotheses, references, lowercase=True).signature


def test_any_reference_may_match() -> None:
    hypotheses = ["a b c d", "e f g h"]
    references = [["a b c d", "x x x x"], ["y y y y", "e f g h"]]
    assert bleu(hypotheses, references).value == pytest.approx(100)
    assert bleu(hypotheses, references[:1]).value < 60
    assert "nrefs:2" in bleu(hypotheses, references).signature


def test_chrf_plus_plus_counts_words_too() -> None:
    hypotheses, references = ["the cats sat"], [["the cat sat"]]
    assert chrf(hypotheses, references, word_order=2).value < chrf(hypotheses, references).value


def test_confidence_interval_narrows_with_more_lines() -> None:
    hypotheses = ["the cat sat on a mat", "dogs run far away today", "it is what it is now"]
    references = [["the cat lay on a mat", "dogs ran far away today", "it is what it is now"]]
    few = bleu(hypotheses, references, confidence=True)
    many = bleu(hypotheses * 30, [references[0] * 30], confidence=True)
    assert few.confidence is not None
    assert many.confidence is not None
    assert 0 < many.confidence < few.confidence
    assert few.value == bleu(hypotheses, references).value
    assert bleu(hypotheses, references).confidence is None


def test_the_interval_of_a_score_that_is_0_in_some_samples() -> None:
    lines = ["The quick brown fox"] + ["jumps over the lazy dog"] * 9
    score = chrf(["The quick brown fox"] + ["€"] * 9, [lines], confidence=True)
    assert score.confidence is not None
    assert score.resampled_mean is not None
    assert 0 < score.confidence < 100
    assert type(score.resampled_mean) is float


def test_what_cannot_be_compared() -> None:
    with pytest.raises(EvaluationError, match="1 hypotheses"):
        bleu(["a"], [["a", "b"]])
    with pytest.raises(EvaluationError, match="no lines"):
        bleu([], [[]])
    with pytest.raises(EvaluationError, match="unknown tokenizer 'moses'"):
        bleu(["a"], [["a"]], tokenizer="moses")


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("de", "Er sagt: „Der Rich-Text ist da.“", 'Er sagt : " Der Rich ##AT##-##AT## Text ist da . "'),
        (
            "de",
            "Am 5. Mai kostet es 1.234,50 Euro, z.B. hier.",
            "Am 5. Mai kostet es 1.234,50 Euro , z.B. hier .",
        ),
        ("de", "Das war 1999.", "Das war 1999 ."),
        ("de", "Am 24. Dezember", "Am 24. Dezember"),
        ("de", "Peter’s Haus", "Peter ' s Haus"),
        ("en", "Don’t, it's the 1990's dogs' J. Smith...", "Don 't , it 's the 1990 's dogs ' J. Smith ..."),
        ("fr", "L’homme dit : « oui »", 'L\' homme dit : " oui "'),
        ("", "well-known e-mail - 5-6", "well ##AT##-##AT## known e ##AT##-##AT## mail - 5 ##AT##-##AT## 6"),
        ("", "a_b (c) [d] 50% x…", "a _ b ( c ) [ d ] 50 % x ..."),
        ("hi", "हिन्दी", "हिन्दी"),
        ("de", "Nr. 123. Tag, 12. Tag und 5 . Teil.", "Nr . 123 . Tag , 12. Tag und 5 . Teil ."),
        ("en", "The 12. Day", "The 12 . Day"),  # an ordinal in German only
        ("en", "See p. forty, Mr. Smith of A.B. and J. Doe", "See p. forty , Mr . Smith of A.B. and J. Doe"),
        ("en", "a..b and c, d,e 1,000 2, 3", "a .. b and c , d , e 1,000 2 , 3"),
        ("it", "l'uomo dell'anno", "l' uomo dell' anno"),
        ("en", "it's 1990's 'tis o'clock 5'10", "it 's 1990 's ' tis o 'clock 5 ' 10"),
        ("", "a\x01b", "a b"),
        ("", "‚a‘ ‹b› «c» 「d」 ′e″", "' a ' ' b ' \" c \" \" d \" ' e \""),
        ("", "", ""),
    ],
)
def test_paper_tokens(language: str, line: str, tokens: str) -> None:
    assert paper_tokens(line, language) == tokens


@settings(max_examples=50)
@given(st.text(), st.sampled_from(["", "de", "en", "fr"]))
def test_paper_tokens_lose_nothing_but_space(line: str, language: str) -> None:
    def bare(text: str) -> str:
        return "".join(character for character in text if not character.isspace() and ord(character) > 0x1F)

    assert bare(paper_tokens(line, language).replace("##AT##-##AT##", "-")) == bare(
        normalize_quotes(line).replace("##AT##-##AT##", "-")
    )


def test_tokenized_text_gets_only_quotes_and_compounds() -> None:
    assert split_compounds("a-b , c - d") == "a ##AT##-##AT## b , c - d"
    given_tokens = paper_bleu(["the well-known man ."], [["the known man ."]], tokenized=True)
    assert given_tokens.value == pytest.approx(
        tokenized_bleu(["the well ##AT##-##AT## known man ."], [["the known man ."]]).value
    )


def test_quotes_of_tokenized_text_are_normalised_on_both_sides() -> None:
    plain, marked = ['he said " yes " , and " no "'], ["he said „ yes “ , and « no »"]
    for hypotheses, reference in ((plain, marked), (marked, plain)):
        assert paper_bleu(hypotheses, [reference], tokenized=True).value == pytest.approx(100)
        assert tokenized_bleu(hypotheses, [reference]).value < 60


def test_an_interval_comes_from_a_thousand_samples() -> None:
    score = bleu(["a b c d"] * 3, [["a b c d"] * 3], confidence=True)
    assert "bs:1000" in score.signature
    assert (score.confidence, score.resampled_mean) == (0, pytest.approx(100))
    assert "bs:" not in bleu(["a b c d"], [["a b c d"]]).signature


@pytest.mark.parametrize("metric", [bleu, tokenized_bleu, paper_bleu, chrf])
def test_each_metric_has_an_interval_on_request(metric: Callable[..., Score]) -> None:
    plain, sampled = (
        metric(["a b c d", "e f g x"], [["a b c d", "e f g h"]], confidence=each) for each in (False, True)
    )
    assert (plain.confidence, plain.resampled_mean) == (None, None)
    assert sampled.confidence is not None
    assert sampled.confidence > 0
    assert sampled.to_dict().keys() - plain.to_dict().keys() == {"confidence", "resampled_mean"}


def test_training_lines_are_looked_for_in_the_source_and_in_each_reference() -> None:
    lines = {name: [f"this line of {name} is long enough to be one of a kind"] for name in ("src", "first", "second")}
    texts = {name: Text(name, found) for name, found in lines.items()}
    found = evaluate(
        Text("out", ["something else, which nobody has written"]),
        [texts["first"], texts["second"]],
        source=texts["src"],
        training={"train.en": [*lines["src"], *lines["second"]], "train.de": lines["first"]},
    )
    leaks = [each.partition(":")[0] for each in found.warnings if "training data" in each]
    assert leaks == ["src", "first", "second"]
    assert "line 1 is line 2 of train.en" in found.warnings[-1]


_PLAIN = ["Er geht nach Hause, sagt sie.", "Das ist ein Satz.", "Noch ein Satz, kurz."]
_OTHER = ["Er ging nach Hause, sagte sie.", "Dies ist ein Satz.", "Ein Satz noch, kurz."]
_TOKENS = ["Er geht nach Hause , sagt sie .", "Das ist ein Satz .", "Noch ein Satz , kurz ."]


def warnings_of(hypotheses: list[str], reference: list[str], **options: object) -> str:
    result = evaluate(Text("out", hypotheses), [Text("ref", reference)], **options)  # type: ignore[arg-type]
    return "\n".join(result.warnings)


def test_sound_text_raises_no_doubt() -> None:
    assert warnings_of(_OTHER, _PLAIN) == ""
    assert warnings_of(["a b ."], _TOKENS[:1], tokenized=True, lowercase=True) == ""
    french = ["Quoi ? Non !", "Il dit : oui ; bon."]
    assert warnings_of(french, ["Comment ? Non !", "Il dit : non ; bon."]) == ""


@pytest.mark.parametrize(
    ("hypotheses", "reference", "options", "warning"),
    [
        (_TOKENS, _PLAIN, {}, "out looks tokenised: it has 3 lines with"),
        (_PLAIN, _TOKENS, {}, "ref looks tokenised: it has 3 lines with"),
        (_OTHER, _TOKENS, {"tokenized": True}, "out does not look tokenised: it has 3 lines with"),
        (["", "Das.", " "], _PLAIN, {}, "out has 2 empty lines; the first is line 1."),
        (_OTHER, ["Das.", "", "Ja."], {}, "ref has 1 empty line; the first is line 2."),
        (["Er ge@@ ht", "Das", "Noch"], _PLAIN, {}, "out has 1 line with subword marks"),
        (["▁Er ▁geht", "▁Das", "▁Noch"], _PLAIN, {}, "out has 3 lines with subword marks"),
        (["er geht", "das ist", "noch"], _PLAIN, {}, "ref has capital letters, out has none"),
        (_PLAIN, _PLAIN, {}, "out and ref are the same text"),
        (
            _OTHER,
            _PLAIN,
            {"source": Text("src", ["x", _OTHER[1], "y"])},
            "out: 100.0% of its longer lines are copied from src",
        ),
    ],
)
def test_warnings(hypotheses: list[str], reference: list[str], options: dict[str, object], warning: str) -> None:
    assert warning in warnings_of(hypotheses, reference, **options)


def test_copied_share_leaves_out_short_lines() -> None:
    source = ["Berlin", "one two three four", "five six seven eight", "Paris"]
    hypothesis = Text("out", ["Berlin", "one two three four", "fünf sechs sieben acht", "Paris"])
    result = evaluate(hypothesis, [Text("ref", [*_PLAIN, "Ja."])], source=Text("src", source))
    assert result.copied_share == 0.5


def test_evaluation_names_files_and_counts() -> None:
    with pytest.raises(EvaluationError, match=r"out has 3 lines and ref has 2"):
        evaluate(Text("out", _PLAIN), [Text("good", _PLAIN), Text("ref", _PLAIN[:2])])
    with pytest.raises(EvaluationError, match=r"out has 3 lines and src has 1"):
        evaluate(Text("out", _PLAIN), [Text("ref", _PLAIN)], source=Text("src", ["x"]))
    with pytest.raises(EvaluationError, match="out has no lines"):
        evaluate(Text("out", []), [Text("ref", [])])


def test_evaluation_of_unknown_or_contradictory_metrics() -> None:
    with pytest.raises(EvaluationError, match="Did you mean 'bleu'"):
        evaluate(Text("out", _PLAIN), [Text("ref", _PLAIN)], metrics=["blue"])
    with pytest.raises(EvaluationError, match="bleu-intl tokenises by itself"):
        evaluate(Text("out", _PLAIN), [Text("ref", _PLAIN)], metrics=["bleu-intl"], tokenized=True)
    with pytest.raises(EvaluationError, match="bleu-zh tokenises by itself"):
        evaluate(Text("out", _PLAIN), [Text("ref", _PLAIN)], metrics=["chrf", "bleu-zh"], tokenized=True)
    with pytest.raises(EvaluationError, match="at least one metric"):
        evaluate(Text("out", _PLAIN), [Text("ref", _PLAIN)], metrics=[])


def test_evaluation_as_text_and_as_dict() -> None:
    names = ["bleu", "bleu-intl", "bleu-paper", "chrf", "chrf++"]
    result = evaluate(Text("out", _OTHER), [Text("ref", _PLAIN)], metrics=names, confidence=True)
    report = result.to_text()
    for score in result.scores.values():
        assert f"{score.value:.2f}" in report
        assert score.signature in report
    assert "95 % interval" in report
    assert "3 lines, 1 reference" in report
    as_dict = result.to_dict()
    assert list(as_dict["scores"]) == names
    assert as_dict["scores"]["bleu"]["value"] == result.scores["bleu"].value


def test_every_reference_and_option_reaches_the_metric() -> None:
    out, first, second = (
        Text("out", ["A big dog-x runs «a» far"]),
        Text("first", ["zzz"]),
        Text("second", ["A big dog-x runs «a» far"]),
    )
    metrics = ["bleu", "bleu-intl", "bleu-paper", "chrf", "chrf++"]
    found = evaluate(out, [first, second], metrics=metrics, language="de", source=Text("src", ["a b c d"]))
    assert [score.value for score in found.scores.values()] == [pytest.approx(100)] * 5
    assert any(each.startswith("out and second are the same text") for each in found.warnings)
    assert (found.num_references, found.to_dict()["copied_share"]) == (2, 0)
    assert evaluate(out, [first]).to_dict()["copied_share"] is None
    marks = {name: score.signature for name, score in found.scores.items()}
    assert "tok:13a" in marks["bleu"]
    assert "tok:intl" in marks["bleu-intl"]
    assert "tok:moses-like-de+quotes+atat" in marks["bleu-paper"]
    assert ("nw:0" in marks["chrf"], "nw:2" in marks["chrf++"]) == (True, True)
    given = evaluate(out, [second], metrics=["bleu", "bleu-paper", "chrf"], tokenized=True, lowercase=True)
    assert all("case:lc" in score.signature for score in given.scores.values())
    assert "tok:none+quotes+atat" in given.scores["bleu-paper"].signature
    assert "tok:none" in given.scores["bleu"].signature


def test_lengths_and_references_are_compared() -> None:
    assert bleu(["a b"], [["a b c d"]]).length_ratio == 0.5
    with pytest.raises(EvaluationError, match=r"1 hypotheses .* of \[1, 2\] lines"):
        bleu(["a"], [["a"], ["a", "b"]])


def test_an_interval_is_shown_around_the_mean_of_the_samples() -> None:
    score = Score(name="BLEU", value=30, signature="s", confidence=1.5, resampled_mean=29.5)
    found = Evaluation(num_lines=2, num_references=1, scores={"bleu": score})
    assert found.to_text() == "BLEU   30.00  (95 % interval: 29.50 ± 1.50)\n    s\n2 lines, 1 reference"


def test_a_short_sentence_may_be_perfect() -> None:
    assert sentence_bleu("a b c", "a b c") == pytest.approx(100)
    assert sentence_chrf("a b c", "a b c") == pytest.approx(100)


def test_chrf_of_a_sentence_counts_what_is_missing_more_than_what_is_too_much() -> None:
    """β is 2: recall counts four times as much as precision."""
    assert sentence_chrf("the dog runs", "the dog") > sentence_chrf("the dog", "the dog runs")


@pytest.mark.parametrize("metric", [bleu, tokenized_bleu, paper_bleu, chrf])
@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [("ab", ["cd"]), ("ab", [["a", "b"]]), (["a dog", "a cat"], ["ab", "cd"]), (["a"], "a")],
)
def test_a_string_is_no_list_of_lines(metric: Callable[..., Score], hypotheses: object, references: object) -> None:
    with pytest.raises(TypeError, match=r"^Give a list of hypotheses, and a list of lists of references"):
        metric(hypotheses, references)
