"""Calls that were refused: a log shows them as calls with a result that says so, but they were never made.

OpenClaw answers a refused call with `details` `{"status": "blocked", "deniedReason": ...}`; its own detection does not record
such calls (`tool-loop` is its loop detection, anything else a plugin or a policy).
"""

from collections.abc import Iterator
from typing import Any, Literal

from schemas.fingerprints import MISSING
from streams.transcripts.items import CallBlocked, CallFinished, CallStarted, Copied, Item, NotUnderstood, RunItem

#: Items held back of one run: more than any response has calls, and then some answers never come.
_MAX_HELD = 200


class RefusedCalls:
    """Turns each call that was refused into one item that says so.

    The calls of a response are held back until all of them are answered, or something else of their run comes; their order stays.
    """

    def __init__(self) -> None:
        self._held: dict[str, list[CallStarted | CallFinished]] = {}

    def take(self, item: Item) -> Iterator[Item]:
        """Take in an item and yield those that are settled."""
        if isinstance(item, NotUnderstood | Copied):
            yield item
            return
        held = self._held.setdefault(item.run.run_id, [])
        if isinstance(item, CallStarted) or (isinstance(item, CallFinished) and held):
            held.append(item)
            starts = sum(1 for waiting in held if isinstance(waiting, CallStarted))
            if len(held) < min(2 * starts, _MAX_HELD):
                return
            yield from self._settled(item.run.run_id)
        else:
            yield from self._settled(item.run.run_id)
            yield item

    def finish(self) -> Iterator[Item]:
        """Yield what is held back of all runs."""
        for run_id in list(self._held):
            yield from self._settled(run_id)

    def _settled(self, run_id: str) -> Iterator[RunItem]:
        held = self._held.pop(run_id, [])
        refused: dict[int, CallFinished] = {}
        open_starts = [(index, item) for index, item in enumerate(held) if isinstance(item, CallStarted)]
        for item in held:
            if not isinstance(item, CallFinished):
                continue
            found = next((entry for entry in open_starts if _belongs(item, entry[1])), None)
            if found is not None:
                open_starts.remove(found)
                if _denied_reason(item.result) is not None:
                    refused[found[0]] = item
        dropped = {id(item) for item in refused.values()}
        for index, item in enumerate(held):
            if isinstance(item, CallStarted) and index in refused:
                reason: Literal["loop", "policy"] = "loop" if _denied_reason(refused[index].result) == "tool-loop" else "policy"
                yield CallBlocked(
                    item.run, item.place, item.time, item.call_id, item.tool, reason, item.params, item.args_hash, item.poll
                )
            elif id(item) not in dropped:
                yield item


def _belongs(answer: CallFinished, call: CallStarted) -> bool:
    return (answer.call_id, answer.tool, answer.args_hash) == (call.call_id, call.tool, call.args_hash)


def _denied_reason(result: Any) -> str | None:
    details = result.get("details") if result is not MISSING and isinstance(result, dict) else None
    if not isinstance(details, dict) or details.get("status") != "blocked":
        return None
    reason = details.get("deniedReason")
    return reason if isinstance(reason, str) else None
