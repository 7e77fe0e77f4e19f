"""The answer of a gate to one call."""

from typing import Literal

from msgspec import Struct

from schemas.decisions import Level
from streams.gateway.verdict_map import Standing

VerdictAction = Literal["allow", "warn", "block", "abort"]


class Verdict(Struct, frozen=True, kw_only=True):
    """May this call go ahead? `warn`: yes, and `reason` is for the model; `block`: no; `abort`: no, and the run is to be ended.

    `reason` is one plain sentence; `decision_id` and what follows come from the decision that it rests on. `shadow` is what a
    detector in shadow mode would have said: it never refuses. `stale` says that the gate has not been able to read decisions for
    longer than it may, so that it answers from what it knew (or, failing closed, refuses without a decision).
    """

    action: VerdictAction
    reason: str = ""
    decision_id: str | None = None
    detector: str | None = None
    level: Level | None = None
    count: int = 0
    paired_tool: str | None = None
    shadow: "Verdict | None" = None
    stale: bool = False

    @property
    def allowed(self) -> bool:
        """Whether the call goes ahead."""
        return self.action in ("allow", "warn")

    @property
    def refused(self) -> bool:
        """Whether the call must not be made."""
        return not self.allowed


def verdict_of(standing: Standing, *, shadow: Verdict | None = None, stale: bool = False) -> Verdict:
    """Return the answer that a standing decision gives."""
    assert standing.action != "release"  # noqa: S101  (a release does not stand)
    return Verdict(
        action=standing.action,
        reason=standing.message,
        decision_id=standing.decision_id,
        detector=standing.detector,
        level=standing.level,
        count=standing.count,
        paired_tool=standing.paired_tool,
        shadow=shadow,
        stale=stale,
    )


ALLOW = Verdict(action="allow")
ALLOW_STALE = Verdict(action="allow", stale=True)
