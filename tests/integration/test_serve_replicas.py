"""Two services on one PostgreSQL: the quota of a day is spent once, whoever answers, and whatever ends meanwhile."""

import contextlib
import http.client
import itertools
import math
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from made_models import untied_folder
from postgres_server import PostgresServer
from served_process import Serving, serving, write_config
from transduce.serve.operations.keys import add_key
from transduce.serve.state.store import open_store

pytestmark = pytest.mark.computes

QUOTA = 1000
LENGTHS = (7, 11, 43)  # characters of the requests
_CLIENTS = 8  # half of them of each service
_ENDED = (OSError, http.client.HTTPException, AssertionError)  # no answer, or one that is neither 200 nor 429


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "made")


class Replicas:
    """Two services that share a store, and a key of both."""

    def __init__(self, folder: Path, model: Path, database: str, stack: contextlib.ExitStack, python: Path) -> None:
        keys = folder / "keys.toml"
        self.secret = add_key(keys, "first", per_day=QUOTA)
        self._config = write_config(folder, model, keys={"file": str(keys)}, state={"url": database})
        self._stack, self._python = stack, python
        self.services = [self.started(), self.started()]

    def started(self) -> Serving:
        """Starts a further service."""
        return self._stack.enter_context(serving(self._config, python=self._python))

    def answered(self, service: Serving, *texts: str) -> int:
        """Sends texts, and returns their characters where they were translated; 0 where the quota was spent."""
        answer = service.ask("/translate", {"q": texts, "source": "en", "target": "de", "api_key": self.secret})
        assert answer.status in (200, 429), answer.body
        return sum(map(len, texts)) if answer.status == 200 else 0

    def used(self, service: Serving) -> int:
        """Returns what a service says that the key has used."""
        answer = service.ask("/v2/usage", headers={"Authorization": f"DeepL-Auth-Key {self.secret}"})
        return int(answer.json["character_count"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_two_services_spend_a_quota_once_though_one_is_replaced(
    tmp_path: Path, model: Path, postgres: PostgresServer, warm_python: Path, number: int
) -> None:
    database = postgres.new_database()
    counted: list[int] = []  # characters of answered requests
    is_third = threading.Event()
    with contextlib.ExitStack() as stack:
        replicas = Replicas(tmp_path, model, database, stack, warm_python)

        def client(index: int, until: float) -> None:
            """Sends requests until that many characters were answered, or its service ends, or the quota is spent."""
            for length in itertools.islice(itertools.cycle(LENGTHS), index, None):
                if sum(counted) >= until:
                    return
                characters = replicas.answered(replicas.services[index % 2], "x" * length)
                if not characters:
                    return
                counted.append(characters)
                if sum(counted) >= QUOTA / 3:
                    is_third.set()

        with ThreadPoolExecutor(_CLIENTS) as threads:
            until = QUOTA - _CLIENTS * max(LENGTHS)  # what is under way then does not spend the quota
            clients = [threads.submit(client, index, until) for index in range(_CLIENTS)]
            assert is_third.wait(120)
            replicas.services[1].stop(number)
            for index, each in enumerate(clients):
                with contextlib.suppress(*(_ENDED if index % 2 else ())):
                    each.result()
        replicas.services[1] = replicas.started()
        with ThreadPoolExecutor(_CLIENTS) as threads:
            for each in [threads.submit(client, index, math.inf) for index in range(_CLIENTS)]:
                each.result()
        assert not any(replicas.answered(service, "x") for service in replicas.services)
        used = {replicas.used(service) for service in replicas.services}
    store = open_store(database)
    assert used == {store.usage("first", "0000-00-00", "9999-99-99")}
    store.close()
    assert QUOTA <= max(used) < QUOTA + max(LENGTHS), "the last request alone may pass the quota"
    # What was counted and then killed was not answered; nothing is answered and not counted.
    assert sum(counted) == max(used) if number == signal.SIGTERM else sum(counted) <= max(used)


def test_of_long_lists_as_many_are_answered_as_the_quota_has_room_for(
    tmp_path: Path, model: Path, postgres: PostgresServer, warm_python: Path
) -> None:
    lines = ["A dog runs."] * 55  # 605 characters: the first leaves 395, the second overdraws them
    with contextlib.ExitStack() as stack:
        replicas = Replicas(tmp_path, model, postgres.new_database(), stack, warm_python)
        with ThreadPoolExecutor(8) as threads:
            sent = [threads.submit(replicas.answered, replicas.services[index % 2], *lines) for index in range(8)]
            answered = [each.result() for each in sent]
        assert sorted(answered) == [0] * 6 + [605] * 2
        assert {replicas.used(service) for service in replicas.services} == {1210}
