"""The permissions that docs/security.md tells operators to give, read from its `kafka-acls` commands."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "security.md"

_OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}
_RESOURCES = {"topic": 2, "group": 3}
_PATTERNS = {"literal": 3, "prefixed": 4}
_DENY, _ALLOW = 2, 3


@dataclass(frozen=True, kw_only=True)
class Permission:
    """One permission of one user on one resource; the words are those of `kafka-acls`."""

    user: str
    operation: str
    kind: str
    name: str
    pattern: str = "literal"

    def creation(self, *, denied: bool = False) -> tuple[int, str, int, str, str, int, int]:
        """Return the entry of a CreateAcls request; what is denied wins over what is allowed."""
        return (
            _RESOURCES[self.kind],
            self.name,
            _PATTERNS[self.pattern],
            f"User:{self.user}",
            "*",
            _OPERATIONS[self.operation],
            _DENY if denied else _ALLOW,
        )

    def under(self, *, prefix: str, group: str) -> "Permission":
        """Return the same permission for a topic prefix and a group of workers."""
        name = re.sub(r"^loopwarden", group, self.name)
        return replace(self, name=f"{prefix}{name}" if name.startswith("agent.") else name)


def documented_permissions(user: str) -> list[Permission]:
    """Return what the page gives to a user."""
    found = [permission for line in _commands() for permission in _permissions(shlex.split(line)) if permission.user == user]
    assert found, f"{PAGE} gives nothing to {user}"
    return found


def _commands() -> Iterator[str]:
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL):
        yield from (line for line in block.replace("\\\n", " ").splitlines() if line.strip())


def _permissions(words: list[str]) -> Iterator[Permission]:
    command, rest = words[0], words[1:]
    assert command == "kafka-acls"
    flags = {word for word in rest if word == "--add"}
    assert flags == {"--add"}
    pairs = [word for word in rest if word != "--add"]
    options: dict[str, list[str]] = {}
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        options.setdefault(name.removeprefix("--"), []).append(value)
    assert set(options) <= {
        "bootstrap-server", "command-config", "allow-principal", "operation", "resource-pattern-type", "topic", "group"
    }  # fmt: skip
    (principal,) = options["allow-principal"]
    (pattern,) = options.get("resource-pattern-type", ["literal"])
    for operation in options["operation"]:
        for kind in _RESOURCES:
            for name in options.get(kind, []):
                user = principal.removeprefix("User:")
                yield Permission(user=user, operation=operation, kind=kind, name=name, pattern=pattern)
