"""What several unit tests need: a service without a model and its client, the base of an ablation."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from transduce.config import Config, preset

if TYPE_CHECKING:
    from described_answers import DescribedClient
    from fake_service import FakeService


@pytest.fixture
def service() -> "FakeService":
    """The service that `client` talks to."""
    from fake_service import FakeService

    return FakeService()


@pytest.fixture
def client(service: "FakeService") -> "Iterator[DescribedClient]":
    """A client of a service without keys."""
    from described_answers import DescribedClient
    from fake_service import fake_app

    with DescribedClient(fake_app(service)) as made:
        yield made


@pytest.fixture
def base(tmp_path: Path) -> Config:
    """The configuration that an ablation varies."""
    tiny = preset("tiny")
    data = dataclasses.replace(tiny.data, folder=str(tmp_path), train=(("a", "b"),), validation=("c", "d"))
    return dataclasses.replace(tiny, data=data)
