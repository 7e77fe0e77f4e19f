"""What is wrong with a policy file, and where."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProblem:
    """One fault of a policy file.

    `line` and `column` count from 1, columns in characters; both are None when the fault is the file's as a whole. `key_path`
    is the setting, such as `agents.list[0].tools.loopDetection.enabled`, or empty. `message` is one line and needs neither.
    """

    line: int | None = None
    column: int | None = None
    key_path: str = ""
    message: str


class PolicyError(ValueError):
    """A policy file that cannot be used; its text is one line `name:line:column: message` for each problem, in file order."""

    def __init__(self, name: str, problems: Iterable[PolicyProblem]) -> None:
        self.name = name
        # Keys and values of the file stand in messages: no line end or terminal code of theirs may get through.
        shown = [replace(problem, message=_printable(problem.message)) for problem in problems]
        self.problems = sorted(shown, key=lambda problem: (problem.line or 0, problem.column or 0))
        super().__init__(name, self.problems)

    def __str__(self) -> str:
        return "\n".join(
            f"{self.name}:{problem.line}:{problem.column}: {problem.message}"
            if problem.line
            else f"{self.name}: {problem.message}"
            for problem in self.problems
        )


def _printable(message: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in message)
