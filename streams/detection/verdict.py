"""What a detector says about a pending call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from streams.detection.history import Call, SignatureKey

Level = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One detector's finding about the next call with a given signature.

    `warning_key` says which warnings count as the same one; `evidence` returns the calls that the verdict rests on, and is only
    asked for when a decision is published.
    """

    detector: str
    level: Level
    count: int
    warning_key: str
    message: str
    evidence: Callable[[], Sequence[Call]]
    paired_tool: str | None = None

    @property
    def critical(self) -> bool:
        """Whether the call is to be refused."""
        return self.level == "critical"


def signature_key_text(key: SignatureKey, outcome: bytes | None = None) -> str:
    """Return the part of a warning key that names a signature, and an outcome where it matters."""
    tool, args_hash = key
    text = f"{tool}:{args_hash.hex()}"
    return text if outcome is None else f"{text}:{outcome.hex()}"
