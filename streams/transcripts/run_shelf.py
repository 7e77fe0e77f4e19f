"""Keeps any number of runs in bounded memory: those that moved last at hand, the others in a temporary database."""

import pickle
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

Run = TypeVar("Run")

#: Runs at hand: a run with a full history takes some 60 KB, so these are some 60 MB.
_AT_HAND = 1_000

#: Runs put away at once.
_BATCH = 100


class RunShelf(Generic[Run]):
    """A mapping from run id to run that remembers the order in which the runs came.

    Runs put away are written with pickle into a database that SQLite keeps in an unnamed temporary file and nobody else can open.
    """

    def __init__(self, *, at_hand: int = _AT_HAND) -> None:
        self._at_hand = at_hand
        self._live: OrderedDict[str, tuple[int, Run]] = OrderedDict()
        self._count = 0
        self._away: sqlite3.Connection | None = None

    def get(self, run_id: str) -> Run | None:
        """Return a run, None when it has not come yet."""
        found = self._live.get(run_id)
        if found is not None:
            self._live.move_to_end(run_id)
            return found[1]
        if self._away is None:
            return None
        row = self._away.execute("SELECT number, run FROM runs WHERE id = ?", (_key(run_id),)).fetchone()
        if row is None:
            return None
        run: Run = pickle.loads(row[1])  # noqa: S301  (written by this process into a file that has no name)
        self._live[run_id] = (row[0], run)
        self._make_room()
        return run

    def put(self, run_id: str, run: Run) -> None:
        """Keep a run that has not come yet."""
        self._count += 1
        self._live[run_id] = (self._count, run)
        self._make_room()

    def drain(self) -> Iterator[Run]:
        """Yield all runs in the order in which they came, and forget them."""
        if self._away is not None:
            self._put_away(len(self._live))
            for (data,) in self._away.execute("SELECT run FROM runs ORDER BY number"):
                yield pickle.loads(data)  # noqa: S301  (see `get`)
            self._away.close()
            self._away = None
        else:
            for _, run in sorted(self._live.values(), key=lambda kept: kept[0]):
                yield run
        self._live.clear()

    def _make_room(self) -> None:
        if len(self._live) > self._at_hand:
            self._put_away(min(_BATCH, len(self._live) - 1))

    def _put_away(self, count: int) -> None:
        if self._away is None:
            self._away = sqlite3.connect("", isolation_level=None)
            self._away.execute("PRAGMA journal_mode = OFF")
            self._away.execute("PRAGMA synchronous = OFF")
            self._away.execute("CREATE TABLE runs (id BLOB PRIMARY KEY, number INTEGER, run BLOB) WITHOUT ROWID")
        rows = []
        for _ in range(count):
            run_id, (number, run) = self._live.popitem(last=False)
            rows.append((_key(run_id), number, pickle.dumps(run, protocol=pickle.HIGHEST_PROTOCOL)))
        self._away.execute("BEGIN")
        self._away.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", rows)
        self._away.execute("COMMIT")


def _key(run_id: str) -> bytes:
    return run_id.encode(errors="surrogatepass")
