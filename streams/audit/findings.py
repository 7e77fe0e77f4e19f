"""What a verification finds, one by one and in numbers."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from streams.audit.payloads import FieldDifference

#: All but `not_yet` are differences.
Kind = Literal["missing", "extra", "different", "unreadable", "not_yet"]

#: Reasons for which a decision cannot be reproduced, as people read them.
REASONS = {
    "expired": "the run's first events have expired",
    "beginning": "the run began, or may have begun, before the range",
    "policy": "no policy.applied marker tells which policy was in force",
    "engine": "another engine version decided",
    "overtaken": "the abort's compaction may have been read too late (the order of the two input topics is not recorded)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A difference between the decisions topic and what follows from the inputs, or what a worker still has to publish.

    `record` is the published record, `as_of` the tool call that the decision is dated by, both as `topic[partition]@offset`;
    `decision` says in a few words what is decided.
    """

    kind: Kind
    decision_id: str | None = None
    run_id: str | None = None
    record: str | None = None
    as_of: str | None = None
    decision: str | None = None
    reason: str | None = None
    fields: tuple[FieldDifference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the finding for programs, without what is not known."""
        found = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        if self.fields:
            found["fields"] = [one._asdict() for one in self.fields]
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Finding":
        """Read back what `to_json` gave."""
        fields = tuple(FieldDifference(**one) for one in found.get("fields", ()))
        return cls(**{**found, "fields": fields})


@dataclass(slots=True, kw_only=True)
class Tally:
    """Numbers of one partition, or of several added up.

    `equal` decisions were compared and are as they should be; `copies` are repetitions after a crash; `withdrawn` pairs of an
    abort and its release that only one of the two orders of the input topics brings; `not_yet` decisions that a worker still
    has to publish. `not_reproducible` counts by reason (`REASONS`), `examples` has the first record of each.
    """

    events: int = 0
    dead_letters: int = 0
    misrouted: int = 0
    equal: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    unreadable: int = 0
    copies: int = 0
    withdrawn: int = 0
    not_yet: int = 0
    not_reproducible: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def differences(self) -> int:
        """How many differences there are; none means that the decisions are what the inputs and policies say."""
        return self.missing + self.extra + self.different + self.unreadable

    def count(self, finding: Finding) -> None:
        """Count a finding."""
        setattr(self, finding.kind, getattr(self, finding.kind) + 1)

    def set_aside(self, reason: str, example: str, number: int = 1) -> None:
        """Count decisions that cannot be reproduced."""
        self.not_reproducible[reason] += number
        self.examples.setdefault(reason, example)

    def add(self, other: "Tally") -> None:
        """Add the numbers of another partition."""
        for name, value in asdict(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.not_reproducible.update(other.not_reproducible)
        self.examples = {**other.examples, **self.examples}

    def to_json(self) -> dict[str, Any]:
        """Return the numbers for programs."""
        return {**asdict(self), "not_reproducible": dict(self.not_reproducible)}

    @classmethod
    def from_json(cls, numbers: dict[str, Any]) -> "Tally":
        """Read back what `to_json` gave."""
        return cls(**{**numbers, "not_reproducible": Counter(numbers["not_reproducible"])})
