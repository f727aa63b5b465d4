"""M2M100 and NLLB, imported, give what transformers and CTranslate2's own conversion give."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from made_m2m100 import CODES, NLLB_CODES, m2m100_folder, made_lines, nllb_folder
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.interface import Engine, TokenConstraints
from transduce.engines.torch import TorchEngine, load_model
from transduce.errors import BundleError, ConfigError
from transduce.export import import_huggingface
from transduce.export.huggingface_reading import read_checkpoint
from transduce.translation.alternatives import alternatives
from transduce.translation.attention import attend
from transduce.translation.directions import directed
from transduce.translation.pipeline import TextOptions
from transduce.translation.text_model import encode_lines
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

transformers = pytest.importorskip("transformers")
LINES = [line.rstrip() for line in made_lines(300)]  # transformers makes a token of a space at the end of a line
LONGEST = 22  # tokens of an output


@dataclass
class Imported:
    """A folder of transformers, and what we made of it."""

    folder: Path
    bundle: Bundle
    tokenizer: Any  # theirs
    model: Any  # theirs
    order: np.ndarray  # their id of each of ours
    pairs: Sequence[tuple[str, str]]

    def code_id(self, language: str) -> int:
        """Returns their id of a language's code."""
        name = language if "_" in language else f"__{language}__"
        return int(self.tokenizer.convert_tokens_to_ids(name))

    def theirs(self, source: str, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of lines of a language by their tokenizer."""
        self.tokenizer.src_lang = source
        found: list[list[int]] = self.tokenizer(list(lines))["input_ids"]
        return found


def imported(folder: Path, codes: Sequence[str]) -> Imported:
    output = folder.with_name(f"{folder.name}-imported")
    certificate = import_huggingface(folder, output, sample=12)
    assert certificate is not None
    assert certificate.verdict == "passed"
    return Imported(
        folder,
        Bundle.load(output),
        transformers.AutoTokenizer.from_pretrained(folder),
        transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval(),
        read_checkpoint(folder).tokenizer.order,
        [(codes[0], codes[1]), (codes[2], codes[0]), (codes[3], codes[4])],
    )


@pytest.fixture(scope="module", params=["m2m100", "nllb", "nllb with tokenizer.json only"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """The two systems' forms: one file of safetensors; a pickle; pickles in parts with an index."""
    folder = tmp_path_factory.mktemp("models") / "theirs"
    if request.param == "m2m100":
        return imported(m2m100_folder(folder), CODES)
    if request.param == "nllb":
        return imported(nllb_folder(folder, bin=True), NLLB_CODES)
    return imported(nllb_folder(folder, tokenizer_json=True, bin=True, shards="60KB"), NLLB_CODES)


@pytest.fixture(params=["torch", "ctranslate2"])
def engine(request: pytest.FixtureRequest, model: Imported) -> Engine:
    kind = TorchEngine if request.param == "torch" else CTranslate2Engine
    return kind.load(model.bundle)


def translator_of(model: Imported, engine: Engine) -> Translator:
    return Translator(engine, model.bundle.tokenizer, DecodeConfig(), model.bundle)


def test_token_ids_are_theirs(model: Imported) -> None:
    tokenizer = model.bundle.tokenizer
    encoded = tokenizer.encode_batch(LINES)
    for source, _ in model.pairs:
        tag = tokenizer.tags[f"<2{source}>"]
        ours = [model.order[[tag, *ids, EOS]].tolist() for ids in encoded]
        assert ours == model.theirs(source, LINES)


def test_logits_are_theirs(model: Imported) -> None:
    """Of 60 pairs, with targets at random: at each position, those of all their tokens."""
    own, draw = load_model(model.bundle).eval(), random.Random(3)
    ordinary = [index for index in range(4, len(model.order)) if index not in model.bundle.tokenizer.tags.values()]
    assert len(model.order) == model.model.config.vocab_size + 1  # each row of theirs, and the start
    for number, (source, target) in enumerate(model.pairs * 20):
        [theirs] = model.theirs(source, [LINES[number]])
        ids = [model.bundle.tokenizer.tags[f"<2{source}>"], *model.bundle.tokenizer.encode(LINES[number]), EOS]
        begun = [model.bundle.tokenizer.tags[f"<2{target}>"], *draw.choices(ordinary, k=draw.randint(1, 30))]
        inputs = torch.tensor([[model.model.config.decoder_start_token_id, *model.order[begun]]])
        with torch.inference_mode():
            expected = model.model(input_ids=torch.tensor([theirs]), decoder_input_ids=inputs).logits[0, :-1].numpy()
            memory = own.encode(torch.tensor([ids]), torch.tensor([len(ids)]))
            found = own.decode(memory, torch.tensor([begun]))[0].numpy()
        shown = np.arange(len(model.order)) != BOS
        assert np.abs(found[:, shown] - expected[:, model.order[shown]]).max() < 1e-4


def test_greedy_outputs_are_theirs(model: Imported, engine: Engine) -> None:
    options = DecodeConfig(beam_size=1, max_extra_tokens=60, max_tokens=LONGEST)
    translator = translator_of(model, engine)
    found_of_all = []
    for source, target in model.pairs:
        lines = LINES[:200]
        in_direction = directed(translator, source, target)
        found = in_direction.engine.translate(encode_lines(in_direction.tokenizer, lines), options)
        model.tokenizer.src_lang = source
        batch = model.tokenizer(lines, return_tensors="pt", padding=True)
        never = [[int(model.order[index])] for index in sorted(_never(model))]
        with torch.inference_mode():
            written = model.model.generate(
                **batch,
                forced_bos_token_id=model.code_id(target),
                num_beams=1,
                max_length=2 + LONGEST,  # with the start and the code
                bad_words_ids=never,
            ).tolist()
        for [best], row in zip(found, written, strict=True):
            assert row[:2] == [model.model.config.decoder_start_token_id, model.code_id(target)]
            expected = row[2 : row.index(2, 2)] if 2 in row[2:] else row[2:]
            assert model.order[best.ids].tolist() == expected[:LONGEST]
        found_of_all.append([best.ids for [best] in found])
    assert len({json.dumps(each) for each in found_of_all}) == 3  # each pair its own
    assert len({tuple(ids) for each in found_of_all for ids in each}) > 100


def _never(model: Imported) -> set[int]:
    """Returns our ids of what no search of ours writes; our start is the end there, which is written."""
    return {PAD, UNK, *model.bundle.tokenizer.tags.values()}


def test_their_own_conversion_gives_the_same(model: Imported, tmp_path: Path) -> None:
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    if not (model.folder / "sentencepiece.bpe.model").is_file():
        pytest.skip("the converter knows the names of all tokens only with a SentencePiece model")
    TransformersConverter(str(model.folder)).convert(str(tmp_path / "converted"))
    theirs = ctranslate2.Translator(str(tmp_path / "converted"), device="cpu")
    names = json.loads((tmp_path / "converted" / "shared_vocabulary.json").read_text())
    ids_of = {name: index for index, name in enumerate(names)}
    translator = translator_of(model, CTranslate2Engine.load(model.bundle))
    options = DecodeConfig(beam_size=1, max_extra_tokens=60, max_tokens=LONGEST)
    for source, target in model.pairs:
        tokens = [model.tokenizer.convert_ids_to_tokens(ids) for ids in model.theirs(source, LINES[:100])]
        code = model.tokenizer.convert_ids_to_tokens(model.code_id(target))
        never = [[model.tokenizer.convert_ids_to_tokens(int(model.order[index]))] for index in sorted(_never(model))]
        results = theirs.translate_batch(
            tokens,
            target_prefix=[[code]] * len(tokens),
            beam_size=1,
            max_decoding_length=1 + LONGEST,
            suppress_sequences=never,
        )
        expected = [[ids_of[token] for token in each.hypotheses[0][1:]] for each in results]
        in_direction = directed(translator, source, target)
        found = in_direction.engine.translate(encode_lines(in_direction.tokenizer, LINES[:100]), options)
        assert [model.order[best.ids].tolist() for [best] in found] == expected


def test_scores_do_not_count_the_code(model: Imported, engine: Engine) -> None:
    """What a search says of its outputs is what forced scoring says, which is the model's own after the code."""
    source, target = model.pairs[0]
    in_direction = directed(translator_of(model, engine), source, target)
    sources = encode_lines(in_direction.tokenizer, LINES[:20])
    for options, n_best in (
        (DecodeConfig(beam_size=4, max_tokens=12), 3),
        (DecodeConfig(beam_size=1, max_tokens=12), 1),
    ):
        found = in_direction.engine.translate(sources, options, n_best)
        for of_source, ids in zip(found, sources, strict=True):
            scored = in_direction.engine.score([ids] * len(of_source), [each.ids for each in of_source])
            for each, values in zip(of_source, scored, strict=True):
                assert len(values) == len(each.ids) + 1
                total = sum(values if each.finished else values[:-1])
                length = len(each.ids) + each.finished
                assert each.log_probability == pytest.approx(total, abs=1e-3)
                assert each.score == pytest.approx(total / ((5 + length) / 6) ** 0.6, abs=1e-3)


def test_a_beam_finds_what_theirs_finds(model: Imported) -> None:
    """Without a length penalty, for each line whose best output ends there: one that does not has a score there, too.

    It may find a better one, as an output ends here where the end is among the best 8 continuations, and there 4.
    """
    source, target = model.pairs[0]
    in_direction = directed(translator_of(model, TorchEngine.load(model.bundle)), source, target)
    options = DecodeConfig(beam_size=4, length_penalty=0, max_extra_tokens=60, max_tokens=LONGEST)
    found = in_direction.engine.translate(encode_lines(in_direction.tokenizer, LINES[:60]), options)
    model.tokenizer.src_lang = source
    with torch.inference_mode():
        theirs = model.model.generate(
            **model.tokenizer(LINES[:60], return_tensors="pt", padding=True),
            forced_bos_token_id=model.code_id(target),
            num_beams=4,
            max_length=3 + LONGEST,
            length_penalty=0.0,
            early_stopping="never",
            bad_words_ids=[[int(model.order[index])] for index in sorted(_never(model))],
            return_dict_in_generate=True,
            output_scores=True,
        )
    rows = zip(found, theirs.sequences.tolist(), theirs.sequences_scores.tolist(), strict=True)
    ended = [(best, row[2 : row.index(2, 2)], score) for [best], row, score in rows if 2 in row[2:]]
    assert len(ended) > 10
    same = [best for best, expected, _ in ended if model.order[best.ids].tolist() == expected]
    assert len(same) > 15
    for best, _, score in ended:
        assert best.log_probability >= score - 1e-3
        if best in same:
            assert best.log_probability == pytest.approx(score, abs=1e-3)


def test_words_that_are_given_and_demanded_come_after_the_code(model: Imported, engine: Engine) -> None:
    source, target = model.pairs[1]
    in_direction = directed(translator_of(model, engine), source, target)
    sources = encode_lines(in_direction.tokenizer, LINES[:8])
    begun, demanded = (tuple(in_direction.tokenizer.encode(text)) for text in ("Hund läuft", "Frau"))
    options = DecodeConfig(beam_size=1, max_extra_tokens=60, max_tokens=LONGEST)
    prefixed = in_direction.engine.translate(sources, options, 1, [TokenConstraints(prefix=begun)] * len(sources))
    never = [[int(model.order[index])] for index in sorted(_never(model))]
    first = [model.model.config.decoder_start_token_id, model.code_id(target), *model.order[[*begun]].tolist()]
    for [best], line in zip(prefixed, LINES[:8], strict=True):
        [ids] = model.theirs(source, [line])
        with torch.inference_mode():
            [row] = model.model.generate(
                input_ids=torch.tensor([ids]),
                decoder_input_ids=torch.tensor([first]),
                num_beams=1,
                max_length=2 + LONGEST,
                bad_words_ids=never,
            ).tolist()
        expected = row[2 : row.index(2, 2)] if 2 in row[2:] else row[2:]
        assert model.order[best.ids].tolist() == expected[:LONGEST]
        [values] = in_direction.engine.score([in_direction.tokenizer.encode(line)], [best.ids])
        assert best.log_probability == pytest.approx(sum(values if best.finished else values[:-1]), abs=1e-3)
    wide = DecodeConfig(beam_size=4, max_tokens=16)
    required = [TokenConstraints(prefix=begun, required=((demanded,),), forbidden=((4,),))] * len(sources)
    for [best], ids in zip(in_direction.engine.translate(sources, wide, 1, required), sources, strict=True):
        assert tuple(best.ids[: len(begun)]) == begun
        assert not required[0].unmet(best.ids)
        assert 4 not in best.ids[len(begun) :]
        [values] = in_direction.engine.score([ids], [best.ids])
        assert best.log_probability == pytest.approx(sum(values if best.finished else values[:-1]), abs=1e-3)


def test_samples_and_words_to_choose_from_follow_the_code(model: Imported) -> None:
    source, target = model.pairs[2]
    translators = [translator_of(model, kind.load(model.bundle)) for kind in (TorchEngine, CTranslate2Engine)]
    in_direction = directed(translators[0], source, target)
    sources = encode_lines(in_direction.tokenizer, LINES[:4])
    drawn = in_direction.engine.translate(sources, DecodeConfig(temperature=1.0, max_tokens=8), 5)
    for of_source, ids in zip(drawn, sources, strict=True):
        for each, values in zip(
            of_source, in_direction.engine.score([ids] * 5, [d.ids for d in of_source]), strict=True
        ):
            assert not _never(model) & {*each.ids}
            assert each.log_probability == pytest.approx(sum(values if each.finished else values[:-1]), abs=1e-3)
    in_directions = [directed(translator, source, target) for translator in translators]
    next_scores = [each.engine.next_scores(sources[0], [7, 8]) for each in in_directions]
    assert next_scores[0].shape == (3, len(model.order))
    assert np.abs(next_scores[0] - next_scores[1]).max() < 1e-3
    options = DecodeConfig(beam_size=1, max_extra_tokens=4)
    words = [alternatives(each, options, LINES[0], "", 4) for each in in_directions]
    assert [each.word for each in words[0]] == [each.word for each in words[1]] != []
    attention = attend(in_directions[0], options, LINES[0], "Hund")
    assert attention.target_pieces == (f"<2{target}>", "▁Hund", "</s>")
    assert attention.source_pieces[0] == f"<2{source}>"
    assert attention.cross.shape[2:] == (3, len(attention.source_pieces))
    aligned = [each.engine.align([sources[0]], [[7, 8]])[0] for each in in_directions]
    assert aligned[0].shape == (2, len(sources[0]))
    assert np.abs(aligned[0] - aligned[1]).max() < 1e-3


def test_an_import_says_what_it_translates(model: Imported) -> None:
    source, target = model.pairs[0]
    assert model.bundle.config.data.language_tags == "both"
    translator = translator_of(model, TorchEngine.load(model.bundle))
    with pytest.raises(ConfigError, match=r"between any two of its \d+ languages: name them \(--source-language and"):
        translator.translate(["x"])
    with pytest.raises(ConfigError, match=r"\(--source-language missing\)"):
        translator.translate(["x"], target=target)
    by_code = translator.translate(LINES[:3], text_options=TextOptions(language=source, target=target))
    assert translator.translate(LINES[:3], text_options=TextOptions(language="en", target="deu")) == by_code


def test_a_code_behind_the_text_is_refused(tmp_path: Path) -> None:
    folder = nllb_folder(tmp_path / "nllb")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"legacy_behaviour": True}))
    with pytest.raises(BundleError, match=r"tokenizer_config.json: with legacy_behaviour .*: false"):
        read_checkpoint(folder)


def test_codes_that_no_file_lists_are_known_or_refused(tmp_path: Path) -> None:
    folder = m2m100_folder(tmp_path / "m2m100", listed=False)
    tokenizer = read_checkpoint(folder).tokenizer
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer.tokenizer.target_languages) == 100
    for code in ("af", "de", "zu"):
        assert tokenizer.order[tokenizer.tokenizer.tags[f"<2{code}>"]] == theirs.get_lang_id(code)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(BundleError, match="no file lists the codes of its languages"):
        read_checkpoint(folder)


def test_a_language_added_later_has_the_id_that_a_file_gives_it(tmp_path: Path) -> None:
    folder = nllb_folder(tmp_path / "nllb")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    new = len(theirs)  # the next id: those of all languages, and of <mask>, are taken
    added = {theirs.convert_tokens_to_ids(code): code for code in (*NLLB_CODES, "<mask>")} | {new: "xyz_Latn"}
    (folder / "tokenizer.json").unlink()
    decoder = {str(index): {"content": code, "special": True} for index, code in added.items()}
    settings = {"added_tokens_decoder": decoder, "additional_special_tokens": [*added.values()]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    read = read_checkpoint(folder).tokenizer
    assert read.order[read.tokenizer.tags["<2xyz_Latn>"]] == new
    for code in NLLB_CODES:
        assert read.order[read.tokenizer.tags[f"<2{code}>"]] == theirs.convert_tokens_to_ids(code), code


def test_a_model_without_languages_is_refused(tmp_path: Path) -> None:
    folder = nllb_folder(tmp_path / "nllb", tokenizer_json=True)
    definition = json.loads((folder / "tokenizer.json").read_text())
    definition["added_tokens"] = [each for each in definition["added_tokens"] if each["content"].startswith("<")]
    (folder / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(BundleError, match="no file lists the codes of its languages"):
        read_checkpoint(folder)


def test_a_tokenizer_that_is_a_program_is_refused(tmp_path: Path) -> None:
    """SMaLL-100 has the files of M2M100, and puts the code of the target in front of the source."""
    folder = m2m100_folder(tmp_path / "small100")
    (folder / "tokenization_small100.py").write_text("raise SystemExit\n")
    with pytest.raises(BundleError, match=r"tokenization_small100\.py: a tokenizer that is a program of its own"):
        read_checkpoint(folder)
