"""What every contender is told on its command line."""

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Topics and group of one round; `every` is the number of events per decision of contenders that do not detect."""

    bootstrap: str
    group: str
    input: str
    decisions: str
    changelog: str
    state_dir: Path
    every: int
    decoder: str
    idempotent: bool
    partitions: int
    session_timeout: float
    commit_interval: float

    def as_options(self) -> list[str]:
        """Return the command line that `parse` reads back."""
        named = {
            "bootstrap": self.bootstrap,
            "group": self.group,
            "input": self.input,
            "decisions": self.decisions,
            "changelog": self.changelog,
            "state-dir": self.state_dir,
            "every": self.every,
            "decoder": self.decoder,
            "idempotent": int(self.idempotent),
            "partitions": self.partitions,
            "session-timeout": self.session_timeout,
            "commit-interval": self.commit_interval,
        }
        return [text for name, value in named.items() for text in (f"--{name}", str(value))]


def parse() -> Arguments:
    """Read the command line of this process."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "input", "decisions", "changelog", "decoder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--state-dir", type=Path, required=True)
    for name in ("every", "idempotent", "partitions"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("session-timeout", "commit-interval"):
        parser.add_argument(f"--{name}", type=float, required=True)
    given = vars(parser.parse_args())
    return Arguments(**{**given, "idempotent": bool(given["idempotent"])})
