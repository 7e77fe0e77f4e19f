"""`loopwarden policy`: check policy files."""

from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from schemas.policy import EffectivePolicy, read_policy
from schemas.policy.model import DETECTOR_NAMES
from streams.cli.options import Json
from streams.cli.terminal import printable

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback(epilog="Example: loopwarden policy check openclaw.json")
def policy() -> None:
    """Check policy files."""


@app.command(epilog="Example: loopwarden policy check openclaw.json --agent researcher")
def check(
    file: Annotated[Path, typer.Argument(help="a policy in JSON5, or a whole openclaw.json")],
    agent: Annotated[str | None, typer.Option(metavar="ID", help="what holds for this agent")] = None,
    json: Json = False,
) -> None:
    """Check a policy file and print what holds after overlay and defaults; exit 2 with every problem and its place."""
    effective = read_policy(file).for_agent(agent)
    if json:
        typer.echo(orjson.dumps(_as_json(effective, agent=agent)).decode())
    else:
        _print_table(effective, agent=agent)


def _as_json(effective: EffectivePolicy, *, agent: str | None) -> dict[str, object]:
    return {
        "version": effective.version,
        "agent": agent,
        "tools": {"loopDetection": effective.as_loop_detection()},
        "loopwarden": {"mode": effective.mode, "shadow": sorted(effective.shadow_detectors)},
    }


def _print_table(effective: EffectivePolicy, *, agent: str | None) -> None:
    whose = f"agent {printable(agent)}" if agent else "agents without settings of their own"
    typer.echo(f"Policy {effective.version} for {whose}")
    table = Table("setting", "value", title_justify="left")
    runs = {True: "detectors and guard", None: "guard only (enabled is not set)", False: "nothing"}[effective.enabled]
    table.add_row("runs", runs)
    flat: dict[str, object] = {}
    for key, value in effective.as_loop_detection().items():
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, dict) else {key: value}
    for key, value in flat.items():
        table.add_row(key, orjson.dumps(value).decode())
    table.add_row("mode", effective.mode)
    table.add_row("shadow", ", ".join(name for name in DETECTOR_NAMES if name in effective.shadow_detectors) or "-")
    Console(highlight=False, markup=False).print(table)
