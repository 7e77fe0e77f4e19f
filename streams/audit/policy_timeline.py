"""Which policy judged which events of a partition: the eras between its `policy.applied` markers."""

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.decisions import Origin
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """A policy, and the first offset of each input topic that it judged.

    `policy` is None where no marker tells any more. `marker` is the record that says so, `applied_at` its time in milliseconds.
    """

    policy: PolicyDocument | None
    tool_calls_offset: int = 0
    compactions_offset: int = 0
    engine_version: str | None = None
    marker: Origin | None = None
    applied_at: int | None = None

    @property
    def version(self) -> str | None:
        """The version of the policy."""
        return None if self.policy is None else self.policy.version


def timeline(markers: Iterable[tuple[Origin, PolicyApplied]], *, before: PolicyDocument | None = None) -> list[Era]:
    """Return the eras of a partition, oldest first; `markers` come in the order of the decisions topic.

    The first era begins at offset 0; its policy is `before` (None: not known) unless a marker stands there. Copies of a marker
    after a crash, and late ones of a worker that had lost the partition, are left out: offsets never go back.
    """
    eras = [Era(policy=before)]
    for origin, marker in markers:
        last = eras[-1]
        at = (marker.tool_calls_offset, marker.compactions_offset)
        if at[0] < last.tool_calls_offset or at[1] < last.compactions_offset:
            continue
        policy = PolicyDocument.from_mapping(marker.policy)
        if last.marker is not None and (policy.version, marker.engine_version) == (last.version, last.engine_version):
            continue
        era = Era(
            policy=policy,
            tool_calls_offset=at[0],
            compactions_offset=at[1],
            engine_version=marker.engine_version,
            marker=origin,
            applied_at=marker.applied_at,
        )
        if last.marker is None and at == (0, 0):
            eras.clear()
        eras.append(era)
    return eras


def in_force_from(eras: list[Era], tool_calls_offset: int) -> list[Era]:
    """Return the eras from the one on that judged the tool call at an offset."""
    first = max(number for number, era in enumerate(eras) if era.tool_calls_offset <= tool_calls_offset)
    return eras[first:]
