"""Requests repeat what was said before: the messages of one conversation in many records, each time with a few more."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from schemas import json_text

#: Conversations whose end is remembered; a request goes on from one that came shortly before.
_MAX_ENDS = 10_000


class GrowingConversations:
    """Knows how each conversation ended so far, and finds the one that a list of messages goes on from.

    Messages count as equal when their members that are named in `members` are: a response has more of them than its echo in the
    next request.
    """

    def __init__(self, members: tuple[str, ...]) -> None:
        self._members = members
        self._ends: OrderedDict[int, str] = OrderedDict()

    def resume(self, messages: Sequence[Any]) -> tuple[str | None, int, int]:
        """Return the run that the messages go on from, how many of them it had already, and the digest of all of them.

        The longest known beginning counts; without one the answer is None and 0.
        """
        digest, run, known = 0, None, 0
        for number, message in enumerate(messages, start=1):
            digest = self._extended(digest, message)
            if digest in self._ends:
                run, known = self._ends[digest], number
        return run, known, digest

    def ended(self, run_id: str, digest: int, messages: Sequence[Any]) -> None:
        """Remember that a run's conversation ends with these messages after what `digest` stands for."""
        for message in messages:
            digest = self._extended(digest, message)
        self._ends[digest] = run_id
        self._ends.move_to_end(digest)
        if len(self._ends) > _MAX_ENDS:
            self._ends.popitem(last=False)

    def _extended(self, digest: int, message: Any) -> int:
        if not isinstance(message, dict):
            return hash((digest, str(message)))
        said = [message.get(member) or None for member in self._members]
        return hash((digest, json_text.dumps(said)))
