"""Options that a command needs, and numbers that it refuses before it reads anything."""

import pytest

from transduce.cli.main import main


@pytest.mark.parametrize(
    "command",
    [
        "train r.toml",
        "average run",
        "student m r.toml",
        "augment back-translate m t",
        "augment distill m t",
        "export m --format onnx",
        "export m --output o",
        "init --train a b",
        "sweep run --source s --reference r",
        "sweep run --source s --output o",
        "score m --source s",
        "score m --target t",
        "calibrate m --source s",
        "parse score --reference r",
        "average run --output o --last 3 --best",
        "score m --source s --target t --json --tokens",
    ],
)
def test_what_a_command_needs_and_what_excludes_each_other(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    assert "usage: transduce" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        "verify m --tie 0",
        "verify m --tolerance 0",
        "verify m --sample 0",
        "ablate r.toml --output o --minutes 0",
        "ablate r.toml --output o --seeds 0",
        "ablate r.toml --output o --jobs 0",
        "average run --output o --last 0",
        "calibrate m --source s --reference r --threshold 100.5",
        "calibrate m --source s --reference r --threshold -1",
        "calibrate m --source s --reference r --threshold nan",
        "shortlist m --source s --target t --candidates 0",
        "shortlist m --source s --target t --iterations 0",
        "shortlist m --source s --target t --max-pairs 0",
        "export m --format onnx --output o --threshold 1.01",
        "export m --format onnx --output o --sample 0",
        "serve m --port 65536",
        "translate m --window 0",
        "translate m --n-best 0",
        "translate m --column 0 --source s",
        "translate m --threads 0",
        "demo --pairs 0",
        "inspect m --sentence a --figure f.svg --layer 0",
        "parse draw t --number 0",
        "parse score --reference r --hypothesis h --max-errors -1",
        "sweep run --source s --reference r --output o --average 0",
        "sweep run --source s --reference r --output o --beam-size 4,0",
    ],
)
def test_a_number_out_of_its_range_is_refused_at_once(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(wrong.split()) == 2
    option = next(word for word in reversed(wrong.split()) if word.startswith("--") and word != "--source")
    assert option in capsys.readouterr().err
