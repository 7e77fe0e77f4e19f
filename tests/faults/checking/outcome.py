"""All that may count of what a group of workers leaves behind."""

from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, int, int]
Headers = tuple[tuple[str, bytes], ...]


@dataclass(slots=True)
class Outcome:
    """Decisions, final states, dead letters and committed offsets, expected or observed.

    `decisions` are payloads by decision id, without `decided_at`. `states` are the stored forms of the runs that have one, by
    partition and run id; `ended` are runs that have ended, of which nothing or an empty stub is left. `dead_letters` are key,
    value and headers as they came, by origin. `offsets` are ends of the input partitions, or what is committed. `standing` is
    what a gate that has read all decisions knows: action, detector and count by run, tool and arguments.
    """

    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: dict[tuple[int, str], bytes] = field(default_factory=dict)
    ended: set[tuple[int, str]] = field(default_factory=set)
    dead_letters: dict[Place, tuple[bytes | None, bytes | None, Headers]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    standing: dict[tuple[str, str | None, str | None], tuple[str, str, int]] = field(default_factory=dict)
    #: the same for a reader that does not drop copies
    standing_with_copies: dict[tuple[str, str | None, str | None], tuple[str, str, int]] = field(default_factory=dict)
    #: payloads that contradict another one of the same id, and dead letters that do
    contradictions: list[str] = field(default_factory=list)
    #: records on the decisions topic and the dead-letter topics, copies included
    written: int = 0
