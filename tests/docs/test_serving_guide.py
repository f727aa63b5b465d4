"""The guide's configuration file has every key of the service, with its default."""

import dataclasses
import re
import tomllib
from pathlib import Path

from transduce.serve.config import ModelEntry, ServeConfig, read_config

_GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "serving.md"


def example() -> str:
    [found] = re.findall(r"```toml\n(\[server\]\n.*?)```", _GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(found)


def test_the_example_has_every_key() -> None:
    values = tomllib.loads(example())
    expected = {section.name for section in dataclasses.fields(ServeConfig)}
    assert set(values) == expected
    [values["models"]] = values["models"]
    for name, section in values.items():
        kind = ModelEntry if name == "models" else type(getattr(ServeConfig(), name))
        assert set(section) == {key.name for key in dataclasses.fields(kind)}, name


def test_the_example_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(example(), encoding="utf-8")
    config = read_config(path)
    assert config.models == (ModelEntry(path=str(tmp_path / "runs/demo/model")),)
    assert config.models[0].name == "demo"
    assert dataclasses.replace(config, models=()) == ServeConfig()
