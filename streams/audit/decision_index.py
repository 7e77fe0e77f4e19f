"""An index of the decisions of a partition, whose memory does not grow with their number.

The latest are in a dictionary, all before them in a temporary database, which SQLite holds in memory as far as its cache goes and
on disk beyond it. Most audits never need the database, which takes ten times as long for a decision.
"""

import sqlite3
from collections.abc import Iterator
from typing import Literal, NamedTuple

#: Decisions in the dictionary, at some 400 bytes each, and KiB of the database that stay in memory.
LATEST = 80_000
_CACHE_KIB = 32 * 1024

#: Beginnings of runs that are remembered, so that each decision of a run need not be asked about.
_MAX_BEGUN = 10_000

#: Why a published decision is not compared.
Unreproducible = Literal["expired", "beginning", "policy", "engine"]

Role = Literal["abort", "withdrawal", "other"]


class Entry:
    """A decision: its record's offset and digest, its run, and whether something accounts for it.

    `role` is the one in the pair of an abort and its release, `uncompared` why it is not compared.
    """

    __slots__ = ("digest", "matched", "offset", "role", "run", "uncompared")

    def __init__(self, offset: int, digest: bytes, run: bytes, role: Role, uncompared: Unreproducible | None) -> None:
        self.offset = offset
        self.digest = digest
        self.run = run
        self.role: Role = role
        self.uncompared = uncompared
        self.matched = False


class Unmatched(NamedTuple):
    """A decision, or a copy of one, that nothing accounts for."""

    decision_id: str
    offset: int
    run: bytes
    role: Role


class DecisionIndex:
    """Decisions by id, the copies of them that have another digest, and where runs began."""

    def __init__(self) -> None:
        self._latest: dict[bytes, Entry] = {}
        self._stored = False
        #: whether there are copies with another digest
        self.has_variants = False
        self._begun: set[tuple[str, int]] = set()
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{_CACHE_KIB}; PRAGMA temp_store=FILE;"
            "CREATE TABLE decisions(id BLOB PRIMARY KEY, at INTEGER, digest BLOB, run BLOB, role TEXT, uncompared TEXT,"
            " matched INTEGER) WITHOUT ROWID;"
            "CREATE TABLE variants(id BLOB, at INTEGER, digest BLOB, run BLOB, role TEXT, PRIMARY KEY(id, at)) WITHOUT ROWID;"
            "CREATE TABLE origins(run BLOB, since INTEGER, PRIMARY KEY(run, since)) WITHOUT ROWID;"
            "BEGIN;"
        )

    def close(self) -> None:
        """Give the temporary database back."""
        self._db.close()

    # -- taking in -------------------------------------------------------------------------------------------------------------

    def add(self, key: bytes, entry: Entry) -> bool:
        """Take in a decision; False when there is one of this id, of which it is a copy then."""
        first = self._find(key)
        if first is None:
            self._latest[key] = entry
            if len(self._latest) > LATEST:
                self._store()
            return True
        if first.digest != entry.digest and first.uncompared is None:
            self.has_variants = True
            self._db.execute(
                "INSERT INTO variants VALUES (?, ?, ?, ?, ?)", (key, entry.offset, entry.digest, first.run, first.role)
            )
        return False

    def begins(self, run_id: str, since: int) -> None:
        """Take in where a run began."""
        if (run_id, since) in self._begun:
            return
        if len(self._begun) >= _MAX_BEGUN:
            self._begun.clear()
        self._begun.add((run_id, since))
        self._db.execute("INSERT OR IGNORE INTO origins VALUES (?, ?)", (run_id.encode(), since))

    def _store(self) -> None:
        rows = (
            (key, one.offset, one.digest, one.run, one.role, one.uncompared, one.matched) for key, one in self._latest.items()
        )
        self._db.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self._latest.clear()
        self._stored = True

    # -- questions -------------------------------------------------------------------------------------------------------------

    def has(self, key: bytes) -> bool:
        """Whether there is a decision."""
        return self._find(key) is not None

    def match(self, key: bytes) -> Entry | None:
        """Return a decision as it was before, and count it as accounted for."""
        found = self._latest.get(key)
        if found is not None:
            if found.matched:
                return found
            before = Entry(found.offset, found.digest, found.run, found.role, found.uncompared)
            found.matched = True
            return before
        found = self._find(key)
        if found is not None and not found.matched:
            self._db.execute("UPDATE decisions SET matched = 1 WHERE id = ?", (key,))
        return found

    def _find(self, key: bytes) -> Entry | None:
        found = self._latest.get(key)
        if found is not None or not self._stored:
            return found
        row = self._db.execute("SELECT at, digest, run, role, uncompared, matched FROM decisions WHERE id = ?", (key,)).fetchone()
        if row is None:
            return None
        *fields, matched = row
        found = Entry(*fields)
        found.matched = bool(matched)
        return found

    def variants(self, key: bytes) -> list[tuple[int, bytes]]:
        """Return offset and digest of the copies that have another digest, in the order of the topic."""
        if not self.has_variants:
            return []
        return self._db.execute("SELECT at, digest FROM variants WHERE id = ? ORDER BY at", (key,)).fetchall()

    def began(self, run_id: str, since: int) -> bool:
        """Whether a run began at an offset."""
        found = self._db.execute("SELECT 1 FROM origins WHERE run = ? AND since = ?", (run_id.encode(), since))
        return found.fetchone() is not None

    def beginnings(self) -> Iterator[int]:
        """Yield the offsets at which runs began, ascending."""
        for (since,) in self._db.execute("SELECT DISTINCT since FROM origins ORDER BY since"):
            yield since

    def unmatched(self) -> Iterator[Unmatched]:
        """Yield what is not accounted for, in the order of the topic, copies with another digest included."""
        # What nobody will ask about any more need not be written.
        self._latest = {key: one for key, one in self._latest.items() if not one.matched}
        self._store()
        rows = self._db.execute(
            "SELECT id, at, run, role FROM decisions WHERE matched = 0 AND uncompared IS NULL"
            " UNION ALL SELECT v.id, v.at, v.run, v.role FROM variants v JOIN decisions d USING (id) WHERE d.matched = 0"
            " ORDER BY 2"
        )
        for key, at, run, role in rows:
            yield Unmatched(key.hex(), at, run, role)
