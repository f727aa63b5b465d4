"""Characters that keys have used by day: a step of larger transactions."""

from transduce.serve.state.database import Statement

_ADD = (
    "INSERT INTO usage_by_day (owner, day, characters) VALUES (?, ?, ?) ON CONFLICT (owner, day) "
    "DO UPDATE SET characters = usage_by_day.characters + excluded.characters "
    "WHERE usage_by_day.characters < ? OR ? = 0 RETURNING characters"
)


def add_usage(run: Statement, day: str, owner: str, characters: int, limit: int = 0) -> tuple[bool, int]:
    """Adds characters to the usage of a key on a day if it is below a limit; 0 is no limit.

    Returns:
        Whether they were added, and the total of the day.
    """
    if added := run(_ADD, owner, day, characters, limit, limit):
        return True, int(added[0][0])
    [(total,)] = run("SELECT characters FROM usage_by_day WHERE owner = ? AND day = ?", owner, day)
    return False, int(total)
