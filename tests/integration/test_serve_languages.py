"""The service of one model of several target languages: each pair is served, in each protocol."""

from dataclasses import replace
from pathlib import Path

import pytest

from described_answers import DescribedClient
from made_models import TEXT, made_bundle
from real_app import app_of
from running_service import run, running
from transduce.bundle import save_bundle
from transduce.config import Config, DataConfig, DecodeConfig
from transduce.config.corpora import CorpusConfig
from transduce.errors import ConfigError
from transduce.serve.config import ModelEntry, PivotConfig, ServeConfig
from transduce.serve.requests import TranslationRequest, UnknownPairError
from transduce.serve.service import Service
from transduce.translation.translator import Translator

PAIRS = (("en", "de"), ("de", "fr"), ("de", "en"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of en → de, de → fr and de → en; so en → fr is zero-shot."""
    folder = tmp_path_factory.mktemp("languages")
    tokenizer = made_bundle(folder / "plain").tokenizer.with_tags(["<2de>", "<2fr>", "<2en>", "<domain:law>"])
    made = made_bundle(folder / "wide", ending=0.4, vocab_size=tokenizer.vocab_size, tie_embeddings="none")
    weights = made.weights()
    weights["source_embedding"][-4:] *= 6  # so that each tag gives another output
    corpora = tuple(CorpusConfig(files=("x",), source_language=one, target_language=other) for one, other in PAIRS)
    decode = DecodeConfig(max_extra_tokens=8)
    config = Config(name="many", model=made.config.model, data=DataConfig(corpora=corpora), decode=decode)
    save_bundle(folder / "many", config, weights, tokenizer, {})
    return folder / "many"


@pytest.fixture(scope="module")
def expected(model: Path) -> dict[str, str]:
    return {target: translated(Translator.load(model), TEXT[0], target) for target in ("de", "fr", "en")}


def translated(translator: Translator, text: str, target: str) -> str:
    """Translates as the service does where a request names no options."""
    [found] = translator.translate([text], target=target, text_options=ServeConfig().text)
    return found


def config_of(model: Path, **entry: object) -> ServeConfig:
    return ServeConfig(models=(ModelEntry(path=str(model), threads=2, **entry),))  # type: ignore[arg-type]


def pairs_of(config: ServeConfig) -> dict[tuple[str, str], bool]:
    return {(pair.source, pair.target): pair.zero_shot for pair in Service(config).pairs()}


def test_all_trained_pairs_are_served(model: Path) -> None:
    trained = dict.fromkeys(PAIRS, False)
    assert pairs_of(config_of(model)) == trained
    assert pairs_of(config_of(model, zero_shot=True)) == trained | {("en", "fr"): True}
    assert pairs_of(config_of(model, source="de")) == {("de", "fr"): False, ("de", "en"): False}
    assert pairs_of(config_of(model, target="fr", zero_shot=True)) == {("de", "fr"): False, ("en", "fr"): True}


def test_languages_that_the_model_does_not_know_are_refused(model: Path) -> None:
    with pytest.raises(ConfigError, match=r"target language 'it': .* It knows: de, fr, en"):
        Service(config_of(model, target="it"))
    with pytest.raises(ConfigError, match="Set zero_shot = true"):
        Service(config_of(model, source="en", target="fr"))


def test_each_request_gets_its_language(model: Path, expected: dict[str, str]) -> None:
    assert len(set(expected.values())) == 3

    async def test() -> None:
        async with running(config_of(model, zero_shot=True)) as service:
            assert len(service.slots) == 1  # one model in memory for all pairs
            for source, target, zero_shot in (*((*pair, False) for pair in PAIRS), ("en", "fr", True)):
                request = TranslationRequest(texts=[TEXT[0]], source=source, target=target)
                [found] = await service.translate(request)
                assert (found.best[0].text, found.zero_shot) == (expected[target], zero_shot)
                bound = TranslationRequest(texts=[TEXT[0]], source=source, target=target, forbidden=["qqq"])
                assert (await service.translate(bound))[0].best[0].text == expected[target]
            one = TranslationRequest(texts=[TEXT[0]], source="de", target="fr", prefixes=[""])
            assert all(each.word != "<2fr>" for each in await service.alternatives(one, 3))
            with pytest.raises(UnknownPairError):
                await service.translate(TranslationRequest(texts=["x"], source="fr", target="de"))

    run(test)


def test_a_pivot_may_be_a_language_of_the_same_model(model: Path) -> None:
    async def test() -> None:
        config = ServeConfig(models=config_of(model).models, pivot=PivotConfig(language="de"))
        async with running(config) as service:
            [found] = await service.translate(TranslationRequest(texts=[TEXT[0]], source="en", target="fr"))
            assert (found.via, found.zero_shot) == ("de", False)
            translator = Translator.load(model)
            between = translated(translator, TEXT[0], "de")
            assert found.best[0].text == translated(translator, between, "fr")

    run(test)


def test_a_direct_model_is_preferred_to_a_pivot(model: Path) -> None:
    direct = config_of(model, zero_shot=True)
    service = Service(replace(direct, pivot=PivotConfig(language="de")))
    assert {(pair.source, pair.target): (pair.model, pair.via) for pair in service.pairs()} == {
        ("de", "en"): ("many", ""),
        ("de", "fr"): ("many", ""),
        ("en", "de"): ("many", ""),
        ("en", "fr"): ("many", ""),
    }


def test_every_protocol_knows_the_targets(model: Path, expected: dict[str, str]) -> None:
    with DescribedClient(app_of(config_of(model, zero_shot=True))) as client:
        pairs = client.get("/api/languages").json()["pairs"]
        assert {(pair["source"], pair["target"]): pair["zero_shot"] for pair in pairs}[("en", "fr")]
        for source, target in (("de", "fr"), ("en", "fr"), ("en", "de")):
            fields = {"text": TEXT[0], "source": source, "target": target}
            [own] = client.post("/api/translate", json=fields).json()["translations"]
            assert (own["text"], own["zero_shot"]) == (expected[target], (source, target) == ("en", "fr"))
            fields = {"q": TEXT[0], "source": source, "target": target}
            assert client.post("/translate", json=fields).json()["translatedText"] == expected[target]
            fields = {"text": [TEXT[0]], "source_lang": source.upper(), "target_lang": target.upper()}
            assert client.post("/v2/translate", json=fields).json()["translations"][0]["text"] == expected[target]
        targets = {each["code"]: each["targets"] for each in client.get("/languages").json()}
        assert targets["en"] == ["de", "en", "fr"]


def test_a_request_may_name_a_domain(model: Path, expected: dict[str, str]) -> None:
    translator = Translator.load(model)
    [lawful] = translator.translate([TEXT[0]], target="de", text_options=replace(ServeConfig().text, domain="law"))
    assert lawful != expected["de"]
    fields = {"text": TEXT[0], "source": "en", "target": "de"}
    with DescribedClient(app_of(config_of(model))) as client:
        assert {tuple(pair["domains"]) for pair in client.get("/api/languages").json()["pairs"]} == {("law",)}
        for domain, text in (("law", lawful), ("", expected["de"]), (None, expected["de"])):
            [own] = client.post("/api/translate", json=fields | {"domain": domain}).json()["translations"]
            assert own["text"] == text
        refused = client.post("/api/translate", json=fields | {"domain": "lw"})
        assert refused.status_code == 400
        assert "It knows: law." in refused.json()["error"]["message"]
        words = [
            [each["word"] for each in client.post("/api/alternatives", json=fields | asked).json()["alternatives"]]
            for asked in ({}, {"domain": "law"})
        ]
        assert words[1] == [
            each.word for each in translator.alternatives(TEXT[0], "", 5, target_language="de", domain="law")
        ]
        assert words[0] == [each.word for each in translator.alternatives(TEXT[0], "", 5, target_language="de")]
    configured = ServeConfig(models=config_of(model).models, text=replace(ServeConfig().text, domain="law"))
    with DescribedClient(app_of(configured)) as client:
        for asked, text in (({}, lawful), ({"domain": ""}, expected["de"])):
            [own] = client.post("/api/translate", json=fields | asked).json()["translations"]
            assert own["text"] == text
