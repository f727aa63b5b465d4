"""Tables, numbers and pages of reports, by hand."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.config import Config, ModelConfig, TrainConfig
from transduce.config.model_card import format_metric, model_card
from transduce.reporting import intervals, machine
from transduce.reporting.page import histogram, page, share_bar
from transduce.reporting.tables import aligned, clock, counted, mebibytes, seconds, short, table


def test_a_table_has_text_on_the_left_and_numbers_on_the_right() -> None:
    assert table(("a|b", "n"), [("x", "1")]) == "| a\\|b | n |\n| --- | ---: |\n| x | 1 |"
    assert table(("a", "b", "n"), [("x", "y", "1")], text_columns=2).split("\n")[1] == "| --- | --- | ---: |"


def test_each_table_of_a_text_is_aligned() -> None:
    text = "t\n| a | long |\n| --- | ---: |\n| bcd | 1 |\nend\n| x\\|y | n |\n| --- | --- |\n| z | 22 |\n| no table |"
    assert aligned(text).split("\n") == [
        "t",
        "| a   | long |",
        "| --- | ---: |",
        "| bcd |    1 |",
        "end",
        *text.split("\n")[5:],  # its last line has another number of columns
    ]
    assert aligned("| x\\|y | n |\n| --- | --- |\n| z | 22 |") == "| x\\|y | n   |\n| ---- | --- |\n| z    | 22  |"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1.234, "1.23"),
        (-12.34, "-12.3"),
        (0.0451, "0.0451"),
        (999.6, "1,000"),
        (12_345, "12,300"),
        (1e6, "1.0e+06"),
        (1.23e-7, "1.2e-07"),
    ],
)
def test_short_numbers_have_three_digits(value: float, shown: str) -> None:
    assert short(value) == shown


def test_units() -> None:
    assert [seconds(value) for value in (1.23, 1.0, 0.00456, 12.3e-6)] == ["1.23 s", "1.00 s", "4.56 ms", "12.3 µs"]
    assert [seconds(value) for value in (0.9994, 0.001, 0.0009)] == ["999 ms", "1.00 ms", "900 µs"]
    assert [clock(value) for value in (3909, 59.6, 7)] == ["1:05:09", "0:01:00", "0:00:07"]
    assert mebibytes(3 * 2**20) == "3.00 MiB"


def test_a_histogram_is_drawn_by_square_roots() -> None:
    """The highest bar, of nine, has 192 of 230 units; one of four has two thirds of that, and one of one a third."""
    drawn = histogram([0.0, 1.0, 2.0], [4, 0], [1, 9], "a & b")
    assert drawn.count("<rect") == 3
    for bar in (
        '<rect class="before" x="8.0" y="70.0" width="311.0" height="128.0"/>',
        '<rect class="after" x="8.0" y="134.0" width="311.0" height="64.0"/>',
        '<rect class="after" x="320.0" y="6.0" width="311.0" height="192.0"/>',
    ):
        assert bar in drawn
    for x, anchor, edge in (("8.0", "start", 0), ("320.0", "middle", 1), ("632.0", "end", 2)):
        assert f'<text x="{x}" y="222" text-anchor="{anchor}">{edge}</text>' in drawn
    assert 'aria-label="a &amp; b"' in drawn


def test_a_histogram_of_many_bins_is_marked_at_its_quarters() -> None:
    """Bars of a few pairs among many are at least a unit high; 640 units less twice 8 are shared by the bins."""
    drawn = histogram([number / 8 for number in range(9)], [10**6] + [0] * 7, [0] * 7 + [1], "pairs")
    marks = re.findall(r'<text x="([\d.]+)" y="222" text-anchor="(\w+)">([^<]*)<', drawn)
    anchors = ["start", "middle", "middle", "middle", "end"]
    shown = zip(["8.0", "164.0", "320.0", "476.0", "632.0"], anchors, ["0", "0.25", "0.5", "0.75", "1"], strict=True)
    assert marks == list(shown)
    assert '<rect class="before" x="8.0" y="6.0" width="77.0" height="192.0"/>' in drawn
    assert '<rect class="after" x="554.0" y="197.0" width="77.0" height="1.0"/>' in drawn
    assert drawn.index('class="before"') < drawn.index('class="after"'), "the second is in front"
    assert '<line x1="0" x2="640" y1="198" y2="198"/>' in drawn
    assert drawn.startswith('<svg viewBox="0 0 640 230" role="img" ')
    assert histogram([0.0], [], [], "").count("<rect") == 0
    marked = re.findall(r">(\d+)</text>", histogram(range(12), [1] * 11, [1] * 11, ""))
    assert marked == ["0", "2", "4", "6", "8", "10"], "a quarter of eleven bins is two, rounded down"


def test_values_of_student_s_t_leave_one_part_in_forty_at_each_end() -> None:
    """By Simpson's rule over the density, from 0 to t: 0.475. The table has four digits."""
    for freedom, value in zip(intervals._FREEDOM, intervals._T, strict=True):
        scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
        heights = [(1 + (value * step / 2000) ** 2 / freedom) ** (-(freedom + 1) / 2) for step in range(2001)]
        weights = [1, *[4, 2] * 999, 4, 1]
        area = scale * value / 2000 / 3 * sum(w * h for w, h in zip(weights, heights, strict=True))
        assert area == pytest.approx(0.475, abs=1e-4), freedom


def test_a_page_loads_nothing() -> None:
    made = page("a", "b")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in made
    assert made.startswith('<!doctype html>\n<html lang="en">')
    assert not re.search(r"https?://|<script", made)
    assert "prefers-color-scheme" in made or "light-dark(" in made


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (1000, "1,000 lines"), (12_000, "12,000 lines")],
)
def test_nouns_follow_their_number(number: int, shown: str) -> None:
    assert counted(number, "line") == shown
    assert counted(number, "branch", "branches") == shown.replace("lines", "branches").replace("line", "branch")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.001, "0.00100"), (0.00099, "9.9e-04"), (999_400, "999,000"), (99.96, "100"), (9.996, "10.0"), (1.0, "1.00")],
)
def test_short_numbers_at_their_bounds(value: float, shown: str) -> None:
    assert short(value) == shown
    assert short(-value) == f"-{shown}"


def test_the_machine_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"processor": "Xeon", "instructions": "AVX512", "cores": 4, "threads": 2}
    found |= {"transduce": "1.2", "torch": "2.3", "python": "3.11"}
    line = "Xeon (AVX512), 4 cores, 2 threads in use; PyTorch 2.3, Python 3.11, Transduce 1.2"
    assert machine.machine_line(found) == line
    assert machine.machine_line(found | {"gpu": "H100", "threads": 1}) == f"H100; {line}".replace(
        "2 threads", "1 thread"
    )
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel\t: 7\nmodel name\t: Xeon  Gold \nmodel name\t: B\n")
    monkeypatch.setattr(machine, "Path", lambda _: tmp_path / "cpuinfo")
    assert machine.describe_machine()["processor"] == "Xeon  Gold"
    (tmp_path / "cpuinfo").unlink()
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "riscv64")
    assert machine.describe_machine()["processor"] == "riscv64"


def test_a_machine_is_described_with_what_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "H100")
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    found = machine.describe_machine()
    assert (found["threads"], found["cores"], found["gpu"]) == (3, 5, "H100")
    assert list(found) == ["processor", "instructions", "cores", "threads", "transduce", "torch", "python", "gpu"]


def test_a_page_shows_its_title_as_text() -> None:
    assert "<title>a &lt; b</title>" in page("a < b", "<p>c</p>")
    assert "<body>\n<p>c</p>\n</body>" in page("a < b", "<p>c</p>")
    assert [f"width:{share}" in share_bar(value) for value, share in ((0.5, "50.00%"), (1.5, "100"), (-1, "0.00"))] == [
        True
    ] * 3


def test_measured_values_have_two_decimals_and_large_ones_an_exponent() -> None:
    values = (1.234, 7, 999_999_999_999, 1e12, -(10**15), "a", {"x": 0.5, "y": 2})
    assert [format_metric(value) for value in values] == [
        *("1.23", "7", "999999999999", "1.000e+12", "-1.000e+15", "a", "x 0.50, y 2")
    ]


def test_the_card_of_a_model_has_its_numbers() -> None:
    model = ModelConfig(vocab_size=1234, num_encoder_layers=3, num_decoder_layers=1, d_model=32, d_ff=48, num_heads=2)
    model = replace(model, d_k=8, d_v=12, dropout=0.3)
    config = Config(name="m", model=model, train=TrainConfig(max_steps=2000, label_smoothing=0.2))
    ancestor = {"name": "old", "path": "runs/old", "sha256": "12", "new_words": 7}
    lines = model_card(config, 56789, {"bleu": 30.126, "ancestor": ancestor}).split("\n")
    for line in (
        "| parameters | 56,789 |",
        "| layers | 3 encoder, 1 decoder |",
        "| d_model, d_ff | 32, 48 |",
        "| heads, d_k, d_v | 2, 8, 12 |",
        "| vocabulary | 1,234 bpe pieces, shared |",
        "| training | at most 2,000 steps, dropout 0.3, label smoothing 0.2 |",
        "| started from | old (`runs/old`, 7 new words), SHA-256 of its weights `12` |",
        "| bleu | 30.13 |",
    ):
        assert line in lines
    assert not any(line.startswith("| ancestor") for line in lines)


def test_the_card_of_a_model_with_two_vocabularies_has_both() -> None:
    config = Config(model=ModelConfig(vocab_size=1234, target_vocab_size=567, tie_embeddings="none"))
    assert "| vocabulary | 1,234 bpe pieces of sources, 567 of targets |" in model_card(config, 1, {}).split("\n")
