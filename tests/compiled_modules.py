"""What was compiled into this checkout, and whether it is still what the sources say."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def stale_modules(root: Path = ROOT) -> Iterator[Path]:
    """Yield the sources that were changed after they were compiled: Python would run what they were before."""
    for package in ("schemas", "streams"):
        for compiled in (root / package).rglob("*.so"):
            source = compiled.with_name(f"{compiled.name.split('.', 1)[0]}.py")
            if not source.exists() or source.stat().st_mtime > compiled.stat().st_mtime:
                yield source.relative_to(root)


def refuse_stale_modules() -> None:
    """Raise `SystemExit` when something is stale, with the remedy."""
    if stale := sorted(map(str, stale_modules())):
        raise SystemExit(f"{', '.join(stale)}: changed since it was compiled; run `make compiled` (or `make pure`)")
