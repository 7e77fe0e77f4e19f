"""The history of a run: its last tool calls, with what the detectors ask kept up to date as calls come and go.

A history answers in constant time how often a signature occurs, how long its no-progress streak is, how long the trailing
alternation of two signatures is, and how many trailing calls named the same missing tool. Only an outcome that arrives out of
order makes it count again.

A worker holds hundreds of thousands of calls, which Python's garbage collector would look at again and again. Nothing that a call
refers to refers back to calls, so reference counts free them, and `acyclic` has the compiler hide them from the collector.
"""

from typing import NamedTuple, final

from mypy_extensions import mypyc_attr

#: Calls whose stored form is made once and kept, and the newest ones that are left out of it since outcomes still come for them.
#: A history of the default size has none, and its stored form is that of a release without.
SEALED = 32
OPEN = 16

#: What makes two calls the same call: the tool and the hash of its arguments (16 bytes).
SignatureKey = tuple[str, bytes]


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Outcome:
    """What ended a call: the first 8 bytes of its outcome hash, and the event that brought it.

    Eight bytes are enough to tell apart the outcomes of one run's history and halve what a state stores for them.
    `sequence`, `offset` and `time` (milliseconds) are the `tool-call.finished` event's.
    """

    __slots__ = ("digest", "offset", "sequence", "time", "unknown_tool")

    def __init__(self, digest: bytes, sequence: int | None, offset: int, time: int, unknown_tool: str | None = None) -> None:
        self.digest = digest
        self.sequence = sequence
        self.offset = offset
        self.time = time
        self.unknown_tool = unknown_tool


@mypyc_attr(acyclic=True)
@final
class Signature:
    """What is counted about the calls of a history with one signature.

    `count` of them are there, `pending` of them without an outcome. `streak` is the no-progress streak: going back from the
    newest call with an outcome, how many outcomes are equal to its own. `newest` is the ordinal of that call, -1 without one,
    and `newest_digest` its outcome.
    """

    __slots__ = ("count", "key", "newest", "newest_digest", "outcomes", "pending", "poll", "streak")

    def __init__(self, key: SignatureKey, poll: bool) -> None:
        self.key = key
        self.poll = poll
        self.count = 0
        self.pending = 0
        self.outcomes = 0
        self.streak = 0
        self.newest = -1
        self.newest_digest: bytes | None = None


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Call:
    """One tool call of the history; `ordinal` counts the calls ever recorded, `missing_run` see `History.missing_tool`."""

    __slots__ = ("call_id", "missing_run", "ordinal", "outcome", "sequence", "signature")

    def __init__(
        self, signature: Signature, ordinal: int, sequence: int | None, call_id: str | None, outcome: Outcome | None = None
    ) -> None:
        self.signature = signature
        self.ordinal = ordinal
        self.sequence = sequence
        self.call_id = call_id
        self.outcome = outcome
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


@mypyc_attr(acyclic=True)
@final
class History:
    """The last calls of a run, oldest first.

    `sealed` are the stored forms of its oldest calls, `SEALED` of them each; `sealed_from` is the ordinal of the first of these
    calls, which may have left the history. They are the state codec's, which has to make anew only what is not in them.
    """

    __slots__ = ("_alternation", "_ordinal", "calls", "sealed", "sealed_from", "signatures")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.signatures: dict[SignatureKey, Signature] = {}
        self.sealed: list[bytes] = []
        self.sealed_from = 0
        self._alternation = 0
        self._ordinal = 0

    def restore(self, signature: Signature, *, sequence: int | None, call_id: str | None, outcome: Outcome | None) -> None:
        """Add the next call of a stored history, oldest first; `restored` is to be called after the last one."""
        if not signature.count:
            self.signatures[signature.key] = signature
        signature.count += 1
        ordinal = self._ordinal
        self._ordinal = ordinal + 1
        self.calls.append(Call(signature, ordinal, sequence, call_id, outcome))
        if outcome is None:
            signature.pending += 1
        else:
            signature.outcomes += 1
            signature.streak = signature.streak + 1 if signature.newest_digest == outcome.digest else 1
            signature.newest = ordinal
            signature.newest_digest = outcome.digest

    def restored(self) -> None:
        """Work out what depends on several calls, once all of a stored history are there."""
        self._alternation = self._count_alternation()
        if any(call.outcome is not None and call.outcome.unknown_tool is not None for call in self.calls):
            self._count_missing_from(0)

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

    def alternation_calls(self) -> list[Call]:
        """Return the calls of the trailing alternation, newest first."""
        return self.calls[: -self._alternation - 1 : -1]

    def missing_tool(self) -> MissingTool | None:
        """Return the missing tool that the history ends with."""
        if not self.calls:
            return None
        last = self.calls[-1]
        if last.outcome is None or last.outcome.unknown_tool is None:
            return None
        return MissingTool(last.signature.key[0], last.outcome.unknown_tool, min(last.missing_run, len(self.calls)))

    def append(self, key: SignatureKey, *, poll: bool, sequence: int | None, call_id: str | None) -> Call:
        """Record a call as the newest."""
        signature = self.signatures.get(key)
        if signature is None:
            signature = self.signatures[key] = Signature(key, poll)
        elif poll:
            signature.poll = True  # a gateway that sends hashes may leave the fact out of some events
        call = Call(signature, self._ordinal, sequence, call_id)
        self._ordinal += 1
        signature.count += 1
        signature.pending += 1
        calls = self.calls
        if not calls or calls[-1].signature is signature:
            self._alternation = 1
        elif len(calls) > 1 and calls[-2].signature is signature:
            self._alternation += 1
        else:
            self._alternation = 2
        calls.append(call)
        return call

    def calls_with(self, signature: Signature) -> list[Call]:
        """Return the calls with a signature, newest first."""
        return [call for call in reversed(self.calls) if call.signature is signature]

    def streak_calls(self, signature: Signature) -> list[Call]:
        """Return the calls of the no-progress streak of a signature, newest first."""
        return [call for call in self.calls_with(signature) if call.outcome is not None][: signature.streak]

    def pending_call(self, key: SignatureKey, call_id: str | None) -> Call | None:
        """Return the newest call with this signature, and call id when one is given, that has no outcome yet."""
        signature = self.signatures.get(key)
        if signature is not None and signature.pending:
            for call in reversed(self.calls):
                if call.outcome is None and call.signature is signature and (call_id is None or call.call_id == call_id):
                    return call
        return None

    def settle(self, call: Call, outcome: Outcome) -> None:
        """Give a pending call its outcome."""
        call.outcome = outcome
        if self.sealed and call.ordinal < self.sealed_from + SEALED * len(self.sealed):
            self.sealed.clear()  # an outcome that came very late
        signature = call.signature
        signature.pending -= 1
        signature.outcomes += 1
        if signature.newest < call.ordinal:
            signature.streak = signature.streak + 1 if signature.newest_digest == outcome.digest else 1
            signature.newest = call.ordinal
            signature.newest_digest = outcome.digest
        else:
            self._recount(signature)
        if outcome.unknown_tool is not None:
            self._count_missing(call)

    def _recount(self, signature: Signature) -> None:
        signature.streak = 0
        for call in self.calls_with(signature):
            if call.outcome is None:
                continue
            if call.outcome.digest != signature.newest_digest:
                break
            signature.streak += 1

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
                and before.signature.key[0] == current.signature.key[0]
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
        while self.sealed and self.sealed_from + SEALED <= dropped[-1].ordinal + 1:
            del self.sealed[0]
            self.sealed_from += SEALED
        for call in dropped:
            signature = call.signature
            signature.count -= 1
            if not signature.count:
                del self.signatures[signature.key]
            elif call.outcome is None:
                signature.pending -= 1
            else:
                signature.outcomes -= 1
                signature.streak = min(signature.streak, signature.outcomes)
                if signature.newest == call.ordinal:
                    signature.newest = -1
                    signature.newest_digest = None
        self._alternation = min(self._alternation, len(self.calls))
        return dropped
