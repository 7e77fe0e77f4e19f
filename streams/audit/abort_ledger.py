"""Aborts and their releases: the decisions that may depend on the order in which a worker read the two input topics.

That order is not recorded. What it can change: a compaction that was read after the outcomes left the history, or after the run
was over, leads to no abort; and an abort that a second compaction contradicts is made and withdrawn when that one is read late.
The ledger keeps the aborts of each live run until it is clear which of it has happened.
"""

from dataclasses import dataclass
from typing import Literal

from streams.audit.published import Published
from streams.audit.replayer import Recomputed


@dataclass(frozen=True, slots=True)
class _Abort:
    recomputed: Recomputed
    #: `made` is on the topic, `made_late` is one that only the other order brings and is on the topic
    state: Literal["made", "made_late", "missing"]


@dataclass(frozen=True, slots=True)
class Settled:
    """What a release tells: aborts that are missing, aborts that may never have been made, and what the release is worth now.

    `pair` says that it took back an abort which the worker, having read the compaction in time, did not make.
    """

    missing: list[Recomputed]
    overtaken: list[Recomputed]
    release: Recomputed
    pair: bool = False


class AbortLedger:
    """The aborts of live runs that have not been released."""

    def __init__(self) -> None:
        self._aborts: dict[str, list[_Abort]] = {}
        #: where aborts are published that a late compaction may have withdrawn, by run
        self._withdrawable: dict[bytes, list[int]] = {}

    def abort(self, recomputed: Recomputed, found: list[Published]) -> None:
        """Enter a recomputed abort and where it is published."""
        possible = recomputed.standing == "maybe"
        run_id = recomputed.decision.run_id
        if possible and found:
            self._withdrawable.setdefault(run_id.encode(), []).append(found[0].offset)
        if possible and not found:
            return
        state: Literal["made", "made_late", "missing"] = "missing" if not found else "made_late" if possible else "made"
        aborts = self._aborts.setdefault(run_id, [])
        if aborts and aborts[-1].recomputed.decision.decision_id == recomputed.decision.decision_id:
            return  # both orders bring it; in the other one it may have been withdrawn
        aborts.append(_Abort(recomputed, state))

    def release(self, release: Recomputed, *, found: bool) -> Settled:
        """Settle the aborts of a run by its release."""
        aborts = self._aborts.pop(release.decision.run_id, [])
        last = aborts[-1] if aborts else None
        made = {abort.state for abort in aborts}
        pair = release.withdrawal and not found and last is not None and last.state == "missing"
        if pair:
            aborts.pop()
            release = release._replace(standing="maybe")
        elif aborts and not found and _nothing_may_stand(aborts, release.lost):
            release = release._replace(standing="maybe")
        settled = Settled([], [], release, pair)
        for abort in aborts:
            if abort.state == "missing":
                # A release is of the last abort: when it is there and nothing else was to be released, that abort was made.
                proved = found and abort is last and made == {"missing"}
                excused = _is_overtaken(abort.recomputed, release.lost) and not proved
                (settled.overtaken if excused else settled.missing).append(abort.recomputed)
        return settled

    def rest(self) -> list[Recomputed]:
        """Return the missing aborts that were not released, and forget them."""
        missing = [abort.recomputed for aborts in self._aborts.values() for abort in aborts if abort.state == "missing"]
        self._aborts.clear()
        return missing

    def take_withdrawal(self, run: bytes, offset: int) -> bool:
        """Whether a published release that nothing else accounts for withdraws an abort before it; each abort counts once."""
        aborts = self._withdrawable.get(run, [])
        for index, at in enumerate(aborts):
            if at < offset:
                del aborts[index]
                return True
        return False


def _nothing_may_stand(aborts: list[_Abort], lost: int) -> bool:
    """Whether there may have been no abort left to be released: the last one that was made was withdrawn, or none was made."""
    for abort in reversed(aborts):
        if abort.state == "made_late":
            return True
        if abort.state == "made" or not _is_overtaken(abort.recomputed, lost):
            return False
    return True


def _is_overtaken(abort: Recomputed, lost: int) -> bool:
    """Whether a worker that read the abort's compaction too late never made it."""
    return abort.after is not None and lost > abort.after
