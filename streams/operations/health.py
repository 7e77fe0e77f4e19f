"""Answers to the question whether a process is all right: checks with a reason each, in the text form that Kubernetes uses."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so; `detail` says what was found."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Health:
    """All checks of one question."""

    checks: Sequence[Check]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def faults(self) -> str:
        """The failed checks in one line."""
        return "; ".join(f"{check.name}: {check.detail}" for check in self.checks if not check.ok)

    def text(self, name: str, *, verbose: bool) -> str:
        """Write the checks, a line each: the failed ones, all of them when `verbose`; then the result."""
        shown = [check for check in self.checks if verbose or not check.ok]
        lines = [f"[{'+' if check.ok else '-'}]{check.name} {'ok' if check.ok else 'failed'}: {check.detail}" for check in shown]
        result = f"{name} check {'passed' if self.ok else 'failed'}" if shown else "ok"
        return "\n".join([*lines, result, ""])
