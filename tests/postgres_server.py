"""A PostgreSQL server of our own for tests: Debian's, in a folder of its own, on a socket and no port."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_USER = "postgres"  # the server refuses to be run by root


class PostgresServer:
    """A server that can be stopped and started; each database is empty when it is made."""

    def __init__(self, programs: Path, folder: Path) -> None:
        """Makes the server's files and starts it."""
        self._programs, self._folder = programs, folder
        self._num_databases = 0
        self._run("initdb", "-A", "trust", "-U", "transduce", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        options = f"-c listen_addresses= -c fsync=off -k {self._folder}"
        self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stops the server at once: connections end without a word."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def new_database(self) -> str:
        """Makes an empty database and returns its address."""
        import psycopg

        self._num_databases += 1
        name = f"test{self._num_databases}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.address(name)

    def address(self, database: str) -> str:
        """Returns the address of a database."""
        return f"postgresql://transduce@/{database}?host={self._folder}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", _USER, "--", *command]
        subprocess.run(command, check=True, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def postgres_server() -> Iterator[PostgresServer]:
    """Yields a running server, or skips the test where there is none to run."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        pytest.skip("no PostgreSQL server is installed (apt install postgresql): state in it is NOT tested")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: the path of a socket has at most 107 characters
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam(_USER)
        except KeyError:
            pytest.skip(
                f"PostgreSQL refuses to be run by root, and there is no user {_USER}: state is NOT tested in it"
            )
        os.chown(folder, user.pw_uid, user.pw_gid)
    server = PostgresServer(found[-1], folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
