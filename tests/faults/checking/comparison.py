"""The three numbers that must be zero."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.detection import state_codec
from streams.detection.run_state import RunState
from tests.faults.checking.outcome import Outcome


@dataclass(slots=True)
class Differences:
    """How many things are missing, too many, or there with another content; `examples` name the first of each kind.

    `copies` says how many decisions were published again under the same id, which is allowed; `misled` how many targets a reader
    that does not drop them ends up wrong about.
    """

    missing: int = 0
    extra: int = 0
    wrong: int = 0
    copies: int = 0
    misled: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def none(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.extra or self.wrong)

    def add(self, other: "Differences") -> None:
        """Add the differences of another round."""
        self.missing += other.missing
        self.extra += other.extra
        self.wrong += other.wrong
        self.copies += other.copies
        self.misled += other.misled
        self.examples += other.examples


def compare(expected: Outcome, observed: Outcome) -> Differences:
    """Compare decisions, what stands after them, dead letters, final states and offsets."""
    targets = set(expected.standing) | set(observed.standing_with_copies)
    found = Differences(
        copies=observed.written - len(observed.decisions),
        misled=sum(expected.standing.get(target) != observed.standing_with_copies.get(target) for target in targets),
    )
    _compare_maps("decision", expected.decisions, observed.decisions, found)
    _compare_maps("verdict standing", expected.standing, observed.standing, found)
    _compare_maps("dead letter", expected.dead_letters, observed.dead_letters, found)
    _compare_maps("state", expected.states, observed.states, found, differing_fields)
    for run in sorted(observed.ended - expected.ended):
        found.extra += 1
        found.examples.append(f"state of a run that has not ended says so: {run}")
    for place, end in expected.offsets.items():
        committed = observed.offsets.get(place, 0)
        found.missing += committed < end
        found.extra += committed > end
        if committed != end:
            found.examples.append(f"offset {place}: committed {committed}, the end is {end}")
    found.wrong += len(observed.contradictions)
    found.examples += observed.contradictions[:_EXAMPLES]
    return found


_EXAMPLES = 3


def _compare_maps(
    kind: str,
    expected: Mapping[Any, Any],
    observed: Mapping[Any, Any],
    found: Differences,
    differ: Callable[[Any, Any, Any], str] = lambda key, before, after: f"expected {before}, found {after}",
) -> None:
    missing = [key for key in expected if key not in observed]
    extra = [key for key in observed if key not in expected]
    unequal = (key for key in expected if key in observed and expected[key] != observed[key])
    wrong = {key: said for key in unequal if (said := differ(key, expected[key], observed[key]))}
    found.missing += len(missing)
    found.extra += len(extra)
    found.wrong += len(wrong)
    found.examples += [f"missing {kind}: {key}: {_shown(expected[key])}" for key in missing[:_EXAMPLES]]
    found.examples += [f"extra {kind}: {key}: {_shown(observed[key])}" for key in extra[:_EXAMPLES]]
    found.examples += [f"wrong {kind}: {key}: {said[:2000]}" for key, said in list(wrong.items())[:_EXAMPLES]]


def _shown(value: object) -> str:
    return str(value)[:600]


def differing_fields(place: tuple[int, str], expected: bytes, observed: bytes) -> str:
    """Name the fields of a state that differ; empty when only the order of maps does, which tells how the topics interleaved."""
    before, after = (_fields(state_codec.decode(place[1], stored)) for stored in (expected, observed))
    return ", ".join(f"{name} expected {before[name]}, found {after[name]}" for name in before if before[name] != after[name])


def _fields(state: RunState) -> dict[str, Any]:
    fields = {name: _plain(value) for name, value in _attributes(state).items() if name not in ("history", "guard")}
    fields |= {f"guard.{name}": _plain(value) for name, value in _attributes(state.guard).items()}
    calls = [(call.signature.key, call.sequence, call.call_id, _plain(call.outcome)) for call in state.history.calls]
    return fields | {"calls": calls}


def _plain(value: object) -> object:
    """Return what can be compared by its parts; the engine's own objects are equal to themselves only."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return {"": type(value).__name__, **_attributes(value)} if type(value).__module__.startswith("streams.") else value


def _attributes(of: object) -> dict[str, Any]:
    kind: Any = type(of)
    names = getattr(kind, "__mypyc_attrs__", None) or kind.__slots__  # as compiled, as Python
    return {name: _plain(getattr(of, name)) for name in names if not name.startswith("__")}
