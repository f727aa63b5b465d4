"""What a student's teacher is asked for, which corpora the student then learns from, and when it is measured again."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from fake_tokenizer import FakeTokenizer
from made_models import made_bundle, made_tagged_bundle
from text_engine import text_translator
from transduce.augmentation import CorpusJob
from transduce.augmentation import student as students
from transduce.augmentation.distilled_data import distill_parts, with_distilled_data
from transduce.augmentation.made_corpus import MadeCorpus
from transduce.augmentation.student import StudentJob, make_student, student_config
from transduce.augmentation.student_config import larger_than_teacher, require_fit, teacher_languages
from transduce.augmentation.student_measurement import Comparison
from transduce.config import Config, DataConfig, DecodeConfig, TrainConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.config.start import InitConfig
from transduce.config.weights import count_parameters
from transduce.data.corpus import Part
from transduce.errors import ConfigError, DataError
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress
from transduce.translation.pipeline import TextOptions


def test_the_teacher_is_asked_as_the_job_says_and_the_student_gets_its_translations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{name}.{side}" for name in ("law", "web", "dev", "test") for side in ("en", "fr")]
    for name in names:
        (tmp_path / name).write_text("one line\n", encoding="utf-8")

    def corpora(*domains: str) -> tuple[CorpusConfig, ...]:
        law, web = domains
        french = CorpusConfig(source_language="en", target_language="fr")
        return (
            replace(french, files=("law.en", "law.fr"), name="law", weight=2.0, domain=law),
            replace(french, files=("web.en", "web.fr"), name="web", domain=web),
        )

    other = CorpusConfig(files=("x.en", "x.de"), source_language="en", target_language="de")
    teacher = made_tagged_bundle(tmp_path / "teacher", DataConfig(corpora=(*corpora("law", ""), other)))
    data = DataConfig(
        folder=str(tmp_path),
        corpora=corpora("law", "talk"),
        download="multi30k",
        validation_sets=(HeldOutSetConfig(files=("dev.en", "dev.fr"), name="dev", domain="law"),),
        test_sets=(HeldOutSetConfig(files=("test.en", "test.fr"), name="test", domain="law"),),
    )
    search = DecodeConfig(beam_size=7)
    job = StudentJob(
        teacher=str(teacher.path),
        config=Config(model=teacher.config.model, data=data),
        output=str(tmp_path / "out"),
        search=search,
        nearest="chrf",
        warn=print,
    )
    asked: list[tuple[tuple[Path, ...], Path, CorpusJob, str]] = []
    trained: list[Config] = []

    def distill(
        _: object, paths: tuple[Path, ...], folder: Path, job: CorpusJob, *, nearest: str, languages: tuple[str, str]
    ) -> MadeCorpus:
        assert languages == ("en", "fr")  # as the recipe has them
        asked.append((paths, folder, job, nearest))
        return MadeCorpus(folder, 1, 1, {}, {})

    def train(_: StudentJob, config: Config) -> Outcome:
        trained.append(config)
        return Outcome(End.SIGNAL, Progress())

    monkeypatch.setattr("transduce.augmentation.distilled_data.distill", distill)
    monkeypatch.setattr(students, "_train", train)
    assert make_student(job, lambda: contextlib.nullcontext(text_translator(str.upper))).comparison is None

    made = [tmp_path / "out" / "distilled" / number for number in ("1", "2")]
    files = [(tmp_path / f"{name}.en", tmp_path / f"{name}.fr") for name in ("law", "web")]
    assert [each[:2] for each in asked] == list(zip(files, made, strict=True))
    for (_, _, passed, nearest), domain in zip(asked, ("law", ""), strict=True):  # the teacher knows no talks
        texts = TextOptions(guard=True, target="fr", domain=domain)
        assert passed == CorpusJob(options=search, text_options=texts, warn=print)
        assert nearest == "chrf"

    (found,) = [config.data for config in trained]
    assert (found.folder, found.download) == (str(tmp_path / "out"), "")
    given = [(each.name, each.weight, each.domain, each.files) for each in found.corpora]
    pairs = [(f"distilled/{number}/source.txt", f"distilled/{number}/target.txt") for number in (1, 2)]
    assert given == [("law", 2.0, "law", pairs[0]), ("web", 1.0, "talk", pairs[1])]
    sets = [(each.files, each.domain) for each in (*found.validation_sets, *found.test_sets)]
    assert sets == [
        (tuple(str(tmp_path / f"{name}.{side}") for side in ("en", "fr")), "law") for name in ("dev", "test")
    ]


@pytest.mark.parametrize("tags", ["source", "both"])
def test_each_corpus_is_translated_to_its_own_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tags: Literal["source", "both"]
) -> None:
    """As the heads of a model of several languages learn; only M2M100 and NLLB read the source's language, too."""
    pairs = [("en", "fr"), ("en", "de"), ("fr", "de")]
    corpora = tuple(CorpusConfig(files=("x",), source_language=src, target_language=tgt) for src, tgt in pairs)
    data = DataConfig(corpora=corpora, language_tags=tags)
    teacher = made_tagged_bundle(tmp_path / "teacher", data)
    directions: list[tuple[str, str]] = []

    def distill(_: object, paths: object, folder: Path, job: CorpusJob, **options: object) -> MadeCorpus:
        directions.append((job.text_options.language, job.text_options.target))
        return MadeCorpus(folder, 1, 1, {}, {})

    monkeypatch.setattr("transduce.augmentation.distilled_data.distill", distill)
    parts = [Part((tmp_path,))] * len(pairs)
    distill_parts(text_translator(), teacher, Config(data=data), parts, tmp_path, CorpusJob())
    assert directions == (pairs if tags == "both" else [("", target) for _, target in pairs])


def test_held_out_files_keep_the_names_by_which_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "stored").touch()
    (tmp_path / "dev.tsv.gz").symlink_to(tmp_path / "stored")
    data = DataConfig(folder=str(tmp_path), train=(("a.en", "a.de"),), validation=("dev.tsv.gz",))
    found = with_distilled_data(Config(data=data), tmp_path / "student").data
    assert found.validation == (str(tmp_path / "dev.tsv.gz"),)


def test_teacher_and_student_are_measured_again_where_a_text_or_the_search_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages = [CorpusConfig(files=("x",), source_language="en", target_language=code) for code in ("fr", "de")]
    teacher = made_tagged_bundle(tmp_path / "teacher", DataConfig(corpora=tuple(languages)))
    data = DataConfig(
        corpora=(replace(languages[0], domain="law"),), test_sets=(HeldOutSetConfig(files=("y",), domain="law"),)
    )
    config = Config(model=teacher.config.model, data=data)
    job = StudentJob(teacher=teacher.path, config=config, output=tmp_path / "out")
    job.output.mkdir()
    texts = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.tsv"
        path.write_text(f"{name}\t{name.upper()}\n", encoding="utf-8")
        texts.append(Part((path,)))
    measured: list[tuple[Path, Path, Sequence[tuple[str, str]], dict[str, str]]] = []

    def compare(teacher: Path, student: Path, pairs: Sequence[tuple[str, str]], **options: str) -> Comparison:
        measured.append((teacher, student, pairs, options))
        return Comparison(len(pairs), len(pairs), ("x", "y"), (), ())

    monkeypatch.setattr(students, "compare", compare)
    monkeypatch.setattr(Comparison, "to_markdown", lambda self: "table")
    for _ in range(2):
        found = students._compare(job, teacher, texts, {"student": "1"})
        assert found == Comparison(2, 2, ("x", "y"), (), ())
    student = job.output / "run" / "model"
    wanted = {"source": "", "target": "fr", "domain": "law"}
    assert measured == [(job.teacher, student, [("a", "A"), ("b", "B")], wanted)]
    (tmp_path / "b.tsv").write_text("c\tC\n", encoding="utf-8")
    students._compare(job, teacher, texts, {"student": "1"})
    students._compare(job, teacher, texts, {"student": "2"})
    other = replace(teacher.config, decode=replace(teacher.config.decode, beam_size=9))
    searching = replace(teacher, config=other)
    students._compare(job, searching, texts, {"student": "2"})
    students._compare(job, searching, texts, {"student": "2"})
    assert len(measured) == 4
    retrained = replace(searching, checksums={**teacher.checksums, "model.safetensors": "0"})
    for _ in range(2):
        students._compare(job, retrained, texts, {"student": "2"})
    assert len(measured) == 5


@pytest.mark.parametrize(
    ("facts", "is_there"),
    [
        ({"candidates": 7, "frequent": 3}, True),
        ({"candidates": 7, "frequent": 100}, False),
        ({"candidates": 50, "frequent": 3}, False),
        (None, False),
    ],
)
@pytest.mark.parametrize("held_out", [["held out"], []])
def test_the_shortlist_is_learned_unless_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, int] | None, is_there: bool, held_out: list[str]
) -> None:
    done: list[Any] = []
    bundle = SimpleNamespace(tokenizer=FakeTokenizer(vocab_size=400, target_side=FakeTokenizer(vocab_size=300)))

    def note(name: str, result: Any) -> Any:
        def noted(*arguments: Any, **options: Any) -> Any:
            done.append((name, arguments, options))
            return result

        return noted

    monkeypatch.setattr(students.Bundle, "load", lambda _: bundle)
    monkeypatch.setattr(students, "shortlist_facts", lambda _: facts)
    monkeypatch.setattr(students.learning, "read_prepared", note("read", (["pairs"], held_out)))
    monkeypatch.setattr(students.learning, "hold_out", note("hold out", (["most"], ["a tenth"])))
    monkeypatch.setattr(students.learning, "same_pieces", lambda tokenizer: ("same of", tokenizer))
    monkeypatch.setattr(students.learning, "learn", note("learn", "learned"))
    monkeypatch.setattr(students.learning, "learn_shortlist", note("shortlist", ("table", "coverage")))
    monkeypatch.setattr(students, "save_shortlist", note("save", None))
    job = StudentJob(teacher=tmp_path, config=Config(), output=tmp_path, candidates=7, frequent=3, progress=True)
    students._learn_shortlist(job, tmp_path / "model")
    pairs, held = (["pairs"], held_out) if held_out else (["most"], ["a tenth"])
    learned = [
        ("read", (tmp_path / "data", bundle.tokenizer, 500_000), {}),
        *([] if held_out else [("hold out", (["pairs"],), {})]),
        ("learn", (pairs, 300, ("same of", bundle.tokenizer)), {"iterations": 5, "progress": True}),
        ("shortlist", ("learned", held), {"num_candidates": 7, "num_frequent": 3}),
        ("save", (bundle, "table"), {}),
    ]
    assert done == ([] if is_there else learned)


@pytest.mark.parametrize(
    ("own_vocabulary", "inherits", "given"), [(False, False, True), (True, False, False), (False, True, False)]
)
@pytest.mark.parametrize("state", ["new", "begun", "done", "another"])
def test_the_student_is_trained_on_what_was_prepared(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_vocabulary: bool,
    inherits: bool,
    given: bool,
    state: str,
) -> None:
    """A run of the same configuration that has ended is done, wherever its data are by now."""
    run, data = tmp_path / "out" / "run", tmp_path / "out" / "data"
    config = Config(name="student", init=InitConfig(model="m") if inherits else InitConfig())
    wanted = replace(config, text=replace(config.text, vocab_size=321))
    asked: list[Any] = []
    monkeypatch.setattr(students, "prepare", lambda *given, **options: asked.append((given, options)))
    monkeypatch.setattr(students, "load_prepared", lambda folder: SimpleNamespace(tokenizer=f"of {folder.name}"))
    monkeypatch.setattr(students, "load_tokenizer", lambda path: path)
    monkeypatch.setattr(
        students, "with_vocabulary", lambda config, tokenizer: wanted if tokenizer == "of data" else None
    )
    moved = replace(wanted, data=DataConfig(folder="elsewhere"), name="student" if state == "done" else "other")
    monkeypatch.setattr(students, "load_run_config", lambda _: moved)
    monkeypatch.setattr(students, "checkpoints", lambda _: ["step-5"] if state == "begun" else [])
    monkeypatch.setattr(students, "train", lambda *given, **options: asked.append((given, options)) or "outcome")
    if state in ("done", "another"):
        (run / "model").mkdir(parents=True)
    job = StudentJob(
        teacher=tmp_path / "teacher",
        config=config,
        output=tmp_path / "out",
        settings=("a=1",),
        own_vocabulary=own_vocabulary,
        progress=True,
    )
    assert students._train(job, config) == (None if state == "done" else "outcome")
    tokenizer = tmp_path / "teacher" / "tokenizer.json" if given else None
    prepared = ((config, data), {"tokenizer": tokenizer, "progress": True})
    options = {"resume": state == "begun", "data": data, "settings": ("a=1",), "show_progress": True}
    assert asked == [prepared] + ([] if state == "done" else [((config, run), options)])


@pytest.mark.parametrize(
    ("recipe", "settings", "expected"),
    [
        ("max_steps = 2409", (), 240),  # a tenth
        ("max_steps = 2409", ("train.max_steps=500",), 50),
        ("max_steps = 2409\nint8_tuning_steps = 7", (), 7),
        ("int8_tuning_steps = 0", (), 0),
        ("", ("train.int8_tuning_steps=0",), 0),
        ("max_minutes = 9.0", (), 0),  # nobody knows which steps will be the last
        ("early_stopping = 3", (), 0),
    ],
)
def test_a_student_tunes_for_int8_unless_something_else_is_said(
    tmp_path: Path, recipe: str, settings: tuple[str, ...], expected: int
) -> None:
    (tmp_path / "recipe.toml").write_text(f"[train]\n{recipe}\n", encoding="utf-8")
    assert student_config(tmp_path / "recipe.toml", settings).train.int8_tuning_steps == expected


@pytest.mark.parametrize(
    ("begun", "wanted", "settings", "expected"),
    [
        (None, 10, (), 10),
        (0, 10, (), 0),
        (0, 10, ("train.int8_tuning_steps=10",), 10),
        (0, 20, (), 20),  # the recipe's: that it was changed is for the training to say
        (10, 10, (), 10),
    ],
)
def test_a_student_that_was_begun_without_tuning_goes_on_without(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    begun: int | None,
    wanted: int,
    settings: tuple[str, ...],
    expected: int,
) -> None:
    configs = {steps: Config(train=TrainConfig(max_steps=100, int8_tuning_steps=steps)) for steps in (0, 10, 20)}
    monkeypatch.setattr(students, "started_config", lambda _: None if begun is None else configs[begun])
    job = StudentJob(teacher=tmp_path, config=Config(), output=tmp_path, settings=settings)
    assert students._tuned_as_begun(job, configs[wanted]) == configs[expected]


@pytest.mark.parametrize(("d_ff", "warns"), [(65, True), (64, True), (63, False)])
def test_a_student_that_is_no_smaller_than_its_teacher_is_named(tmp_path: Path, d_ff: int, warns: bool) -> None:
    """The teacher has a d_ff of 64; each unit more is 2 × 32 weights and a bias in each of four layers."""
    teacher = made_bundle(tmp_path / "teacher")
    shape = replace(teacher.config.model, d_ff=d_ff, vocab_size=9999)  # a recipe's vocabulary is a limit
    warning = larger_than_teacher(teacher, replace(teacher.config, model=shape), own_vocabulary=False)
    assert bool(warning) == warns
    if warns:
        size = count_parameters(teacher.config.model)
        assert f"the student has {size + (d_ff - 64) * 4 * (2 * 32 + 1):,} parameters" in warning
        assert f"its teacher in {teacher.path} has {size:,}" in warning


def test_a_student_with_its_own_vocabulary_is_as_large_as_that(tmp_path: Path) -> None:
    teacher = made_bundle(tmp_path / "teacher")
    for more, warns in ((0, True), (-1, False)):
        text = replace(teacher.config.text, vocab_size=teacher.tokenizer.vocab_size + more)
        config = replace(teacher.config, text=text)
        assert bool(larger_than_teacher(teacher, config, own_vocabulary=True)) == warns


def test_the_teacher_is_asked_for_a_language_if_it_has_several(tmp_path: Path) -> None:
    languages = [CorpusConfig(files=("x",), source_language="en", target_language=code) for code in ("fr", "de")]
    several = made_tagged_bundle(tmp_path / "several", DataConfig(corpora=tuple(languages)))
    config = Config(data=DataConfig(corpora=(languages[1],)))
    [corpus] = config.data.training_corpora
    assert teacher_languages(several, corpus) == ("", "de")
    assert teacher_languages(made_bundle(tmp_path / "one"), corpus) == ("", "")


@pytest.mark.parametrize(
    ("theirs", "wanted", "layers"),
    [((4, 3), (2, 1), (2, 1)), ((4, 3), (6, 2), (4, 2)), ((2, 3), (6, 6), (2, 3)), ((4, 1), (3, 2), (3, 1))],
)
def test_a_student_of_its_teachers_width_has_no_more_layers_than_either_says(
    tmp_path: Path, theirs: tuple[int, int], wanted: tuple[int, int], layers: tuple[int, int]
) -> None:
    teacher = made_bundle(tmp_path / "teacher", num_encoder_layers=theirs[0], num_decoder_layers=theirs[1])
    settings = [
        f"model.num_{side}_layers={number}" for side, number in zip(("encoder", "decoder"), wanted, strict=True)
    ]
    (tmp_path / "recipe.toml").write_text(
        'preset = "student-6-2"\n[text]\nvocab_size = 999\n[decode]\nbeam_size = 3\n[model]\n'
        f"num_encoder_layers = {wanted[0]}\nnum_decoder_layers = {wanted[1]}\n"
    )
    config = student_config(tmp_path / "recipe.toml", from_teacher=teacher.path)
    assert (config.model.num_encoder_layers, config.model.num_decoder_layers) == layers
    assert replace(config.model, num_encoder_layers=theirs[0], num_decoder_layers=theirs[1]) == teacher.config.model
    assert (config.text, config.init) == (teacher.config.text, InitConfig(model=str(teacher.path)))
    assert config.decode.beam_size == 3  # the recipe starts from a student
    assert student_config(tmp_path / "recipe.toml", settings[:1]).model.num_encoder_layers == wanted[0]


def test_the_search_of_a_student_is_greedy_unless_its_recipe_or_a_setting_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('name = "mine"\n[decode]\nbeam_size = 7\nlength_penalty = 0.5\n')
    plain = student_config(tmp_path / "recipe.toml")
    assert (plain.decode.beam_size, plain.decode.length_penalty, plain.name) == (1, 0.5, "mine-student-6-2")
    asked = student_config(tmp_path / "recipe.toml", ["decode.beam_size=4"], "student-tiny")
    assert (asked.decode.beam_size, asked.name) == (4, "mine-student-tiny")


@pytest.mark.parametrize("with_test", [True, False])
def test_a_student_is_exported_again_where_it_or_its_shortlist_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_test: bool
) -> None:
    """It is compared on the test sets; on the validation sets if there are none."""
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text("a\tb\n")
    tests = {"news": ("test.tsv",)} if with_test else {}
    data = DataConfig(folder=str(tmp_path), train=(("train.tsv",),), validation=("dev.tsv",), test=tests)
    teacher = made_bundle(tmp_path / "teacher")
    student = made_bundle(tmp_path / "out/run/model")
    (student.path / "shortlist.safetensors").write_text("one")
    said: list[str] = []
    config = Config(model=teacher.config.model, data=data)
    job = StudentJob(teacher=teacher.path, config=config, output=tmp_path / "out", warn=said.append)
    (tmp_path / "out/distilled").mkdir()
    exported: list[Any] = []
    compared: list[Any] = []

    def export(model: Path, folder: Path, *form: Any, **options: Any) -> None:
        exported.append((model, folder, form, options))
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(students, "_distill", lambda *_: None)
    monkeypatch.setattr(students, "with_distilled_data", lambda config, _: config)
    monkeypatch.setattr(students, "_train", lambda *_: None)
    monkeypatch.setattr(students, "_learn_shortlist", lambda *_: None)
    monkeypatch.setattr(students, "export_model", export)
    monkeypatch.setattr(
        students, "_compare", lambda job, teacher, texts, made_from: compared.append((texts, made_from))
    )

    def make() -> int:
        made = make_student(job, contextlib.nullcontext)  # type: ignore[arg-type]
        assert (made.model, made.exported, made.outcome) == (student.path, tmp_path / "out/ctranslate2-int8", None)
        return len(exported)

    assert [make(), make()] == [1, 1]
    options = {"quantization": "int8", "shortlist": True, "overwrite": True}
    assert exported == [(student.path, tmp_path / "out/ctranslate2-int8", ("ctranslate2",), options)]
    (student.path / "shortlist.safetensors").write_text("two")
    assert [make(), make()] == [2, 2]
    (tmp_path / "out/ctranslate2-int8").rmdir()
    assert [make(), make()] == [3, 3]
    made_bundle(student.path, seed=9)
    (student.path / "shortlist.safetensors").write_text("two")
    assert [make(), make()] == [4, 4]
    assert {texts[0].paths for texts, _ in compared} == {(tmp_path / ("test.tsv" if with_test else "dev.tsv"),)}
    assert {len(texts) for texts, _ in compared} == {1}
    assert all(made_from["shortlist"] and made_from["student"] for _, made_from in compared)
    assert len(said) == len(compared)  # it is as large as its teacher
    smaller = replace(config, text=replace(config.text, vocab_size=270))
    make_student(replace(job, config=smaller, own_vocabulary=True), contextlib.nullcontext)  # type: ignore[arg-type]
    assert len(said) == len(compared) - 1
    with pytest.raises(DataError, match="no text to compare teacher and student on"):
        make_student(
            replace(job, config=replace(config, data=replace(data, test={}, validation=()))), contextlib.nullcontext
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pairs", "domains", "message"),
    [
        ([("en", "fr")], ("law", "law"), ""),
        ([("en", "de")], ("", ""), ""),
        ([("", "")], ("", ""), ""),
        ([("en", "it")], ("", ""), r"n0: is en → it, but the teacher in .* translates en → fr, en → de\. Name corpora"),
        ([("fr", "en")], ("", ""), r"n0: is fr → en, but"),
        ([("en", "fr"), ("en", "de")], ("", ""), r"data\.corpora: are en → fr, en → de, but a student has one"),
        ([("en", "fr"), ("en", "it")], ("", ""), r"n1: is en → it, but"),
        ([("en", "fr")], ("law", "web"), r"data\.test_sets: have the domains 'law', 'web'\. Name sets of one domain"),
    ],
)
def test_a_student_has_one_pair_of_its_teachers_languages(
    tmp_path: Path, pairs: list[tuple[str, str]], domains: tuple[str, str], message: str
) -> None:
    languages = [CorpusConfig(files=("x",), source_language="en", target_language=code) for code in ("fr", "de")]
    teacher = made_tagged_bundle(tmp_path / "teacher", DataConfig(corpora=tuple(languages)))
    corpora = tuple(
        CorpusConfig(files=("c",), name=f"n{i}", source_language=source, target_language=target, domain=domains[i])
        for i, (source, target) in enumerate(pairs)
    )
    if domains[0] != domains[1]:  # a set's domain must be one of the corpora's
        corpora += (replace(corpora[0], name="other", domain=domains[1]),)
    sets = tuple(
        HeldOutSetConfig(
            files=(f"t{i}",), name=f"t{i}", source_language=pairs[0][0], target_language=pairs[0][1], domain=domain
        )
        for i, domain in enumerate(domains)
    )
    config = Config(model=teacher.config.model, data=DataConfig(corpora=corpora, test_sets=sets))
    if not message:
        require_fit(teacher, config)
        return
    with pytest.raises(ConfigError, match=message):
        require_fit(teacher, config)
