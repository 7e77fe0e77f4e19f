"""The history of a run: its last tool calls, with what the detectors ask kept up to date as calls come and go.

A history answers in constant time how often a signature occurs, how long its no-progress streak is, how long the trailing
alternation of two signatures is, and how many trailing calls named the same missing tool. Only an outcome that arrives out of
order makes it count again.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class SignatureKey(NamedTuple):
    """What makes two calls the same call: the tool and the hash of its arguments (16 bytes)."""

    tool: str
    args_hash: bytes


class Outcome(NamedTuple):
    """What ended a call: the first 8 bytes of its outcome hash, and the event that brought it.

    Eight bytes are enough to tell apart the outcomes of one run's history and halve what a state stores for them.
    `sequence`, `offset` and `time` (milliseconds) are the `tool-call.finished` event's.
    """

    digest: bytes
    sequence: int | None
    offset: int
    time: int
    unknown_tool: str | None = None


class RecordedCall(NamedTuple):
    """A call as it was recorded, with what became of it."""

    key: SignatureKey
    poll: bool
    sequence: int | None
    call_id: str | None
    outcome: Outcome | None


class Signature:
    """All calls of a history with one signature.

    `streak` is the no-progress streak: going back from the newest call with an outcome, how many outcomes are equal to its own.
    """

    __slots__ = ("calls", "key", "newest_with_outcome", "outcomes", "pending", "poll", "streak")

    def __init__(self, key: SignatureKey, *, poll: bool) -> None:
        self.key = key
        self.poll = poll
        self.calls: list[Call] = []
        self.pending: list[Call] = []
        self.outcomes = 0
        self.streak = 0
        self.newest_with_outcome: Call | None = None

    @property
    def count(self) -> int:
        """How many calls of the history have this signature."""
        return len(self.calls)

    def streak_calls(self) -> Iterator["Call"]:
        """Yield the calls of the no-progress streak, newest first."""
        left = self.streak
        for call in reversed(self.calls):
            if left and call.outcome is not None:
                left -= 1
                yield call

    def _settled(self, call: "Call") -> None:
        assert call.outcome is not None  # noqa: S101 - for the type checker; both callers have just set it
        self.outcomes += 1
        newest = self.newest_with_outcome
        if newest is None or newest.ordinal < call.ordinal:
            same = newest is not None and newest.outcome is not None and newest.outcome.digest == call.outcome.digest
            self.streak = self.streak + 1 if same else 1
            self.newest_with_outcome = call
        else:
            self._recount()

    def _recount(self) -> None:
        self.streak = 0
        digest = None
        for call in reversed(self.calls):
            if call.outcome is None:
                continue
            if digest is None:
                digest = call.outcome.digest
            elif call.outcome.digest != digest:
                break
            self.streak += 1

    def _dropped(self, call: "Call") -> None:
        del self.calls[0]
        if call.outcome is None:
            self.pending.remove(call)
            return
        self.outcomes -= 1
        self.streak = min(self.streak, self.outcomes)
        if self.newest_with_outcome is call:
            self.newest_with_outcome = None


class Call:
    """One tool call of the history; `ordinal` counts the calls ever recorded, `missing_run` see `History.missing_tool`."""

    __slots__ = ("call_id", "missing_run", "ordinal", "outcome", "sequence", "signature")

    def __init__(self, signature: Signature, *, ordinal: int, sequence: int | None, call_id: str | None) -> None:
        self.signature = signature
        self.ordinal = ordinal
        self.sequence = sequence
        self.call_id = call_id
        self.outcome: Outcome | None = None
        self.missing_run = 0


class Alternation(NamedTuple):
    """The trailing calls A, B, A, B ... going back: `last` is A, `other` is B, `length` at least 2."""

    last: Signature
    other: Signature
    length: int


class MissingTool(NamedTuple):
    """The trailing calls that all used `tool` and were all told that there is no tool `name`."""

    tool: str
    name: str
    length: int


class History:
    """The last calls of a run, oldest first."""

    __slots__ = ("_alternation", "_ordinal", "calls", "signatures")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.signatures: dict[SignatureKey, Signature] = {}
        self._alternation = 0
        self._ordinal = 0

    @classmethod
    def restored(cls, recorded: Iterable[RecordedCall]) -> "History":
        """Return the history of these calls, oldest first; what is kept up to date otherwise is counted once at the end."""
        history = cls()
        signatures, calls = history.signatures, history.calls
        names_missing_tools = False
        for ordinal, (key, poll, sequence, call_id, outcome) in enumerate(recorded):
            signature = signatures.get(key)
            if signature is None:
                signature = signatures[key] = Signature(key, poll=poll)
            call = Call(signature, ordinal=ordinal, sequence=sequence, call_id=call_id)
            signature.calls.append(call)
            calls.append(call)
            if outcome is None:
                signature.pending.append(call)
            else:
                call.outcome = outcome
                signature.outcomes += 1
                signature.newest_with_outcome = call
                names_missing_tools = names_missing_tools or outcome.unknown_tool is not None
        for signature in signatures.values():
            if signature.outcomes > 1:
                signature._recount()
            else:
                signature.streak = signature.outcomes
        history._ordinal = len(calls)
        history._alternation = history._count_alternation()
        if names_missing_tools:
            history._count_missing_from(0)
        return history

    def _count_alternation(self) -> int:
        calls = self.calls
        if len(calls) < 2 or calls[-1].signature is calls[-2].signature:
            return min(len(calls), 1)
        length = 2
        while length < len(calls) and calls[-length - 1].signature is calls[-length + 1].signature:
            length += 1
        return length

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def alternation_length(self) -> int:
        """How many of the newest calls take turns, 1 when the last two are alike."""
        return self._alternation

    def alternation(self) -> Alternation | None:
        """Return the alternation of two signatures that the history ends with."""
        if self._alternation < 2:
            return None
        return Alternation(self.calls[-1].signature, self.calls[-2].signature, self._alternation)

    def alternates_with(self, signature: Signature) -> bool:
        """Whether the history ends with an alternation in which it is this signature's turn."""
        return self._alternation >= 2 and self.calls[-2].signature is signature

    def alternation_calls(self) -> Iterator[Call]:
        """Yield the calls of the trailing alternation, newest first."""
        return iter(self.calls[: -self._alternation - 1 : -1])

    def missing_tool(self) -> MissingTool | None:
        """Return the missing tool that the history ends with."""
        if not self.calls:
            return None
        last = self.calls[-1]
        if last.outcome is None or last.outcome.unknown_tool is None:
            return None
        return MissingTool(last.signature.key.tool, last.outcome.unknown_tool, min(last.missing_run, len(self.calls)))

    def append(self, key: SignatureKey, *, poll: bool, sequence: int | None, call_id: str | None) -> Call:
        """Record a call as the newest."""
        signature = self.signatures.get(key)
        if signature is None:
            signature = self.signatures[key] = Signature(key, poll=poll)
        elif poll:
            signature.poll = True  # a gateway that sends hashes may leave the fact out of some events
        call = Call(signature, ordinal=self._ordinal, sequence=sequence, call_id=call_id)
        self._ordinal += 1
        signature.calls.append(call)
        signature.pending.append(call)
        calls = self.calls
        if not calls or calls[-1].signature is signature:
            self._alternation = 1
        elif len(calls) > 1 and calls[-2].signature is signature:
            self._alternation += 1
        else:
            self._alternation = 2
        calls.append(call)
        return call

    def pending_call(self, key: SignatureKey, call_id: str | None) -> Call | None:
        """Return the newest call with this signature, and call id when one is given, that has no outcome yet."""
        signature = self.signatures.get(key)
        if signature is not None:
            for call in reversed(signature.pending):
                if call_id is None or call.call_id == call_id:
                    return call
        return None

    def settle(self, call: Call, outcome: Outcome) -> None:
        """Give a pending call its outcome."""
        call.outcome = outcome
        call.signature.pending.remove(call)
        call.signature._settled(call)
        if outcome.unknown_tool is not None:
            self._count_missing(call)

    def _count_missing(self, call: Call) -> None:
        position = len(self.calls) - 1
        while self.calls[position] is not call:
            position -= 1
        self._count_missing_from(position)

    def _count_missing_from(self, position: int) -> None:
        before = self.calls[position - 1] if position else None
        for current in self.calls[position:]:
            if current.outcome is None or current.outcome.unknown_tool is None:
                before = current
                continue
            same = (
                before is not None
                and before.outcome is not None
                and before.outcome.unknown_tool == current.outcome.unknown_tool
                and before.signature.key.tool == current.signature.key.tool
            )
            current.missing_run = before.missing_run + 1 if same and before is not None else 1
            before = current

    def trim(self, size: int) -> list[Call]:
        """Drop the oldest calls beyond `size` and return them."""
        excess = len(self.calls) - size
        if excess <= 0:
            return []
        dropped = self.calls[:excess]
        del self.calls[:excess]
        for call in dropped:
            signature = call.signature
            signature._dropped(call)
            if not signature.calls:
                del self.signatures[signature.key]
        self._alternation = min(self._alternation, len(self.calls))
        return dropped
