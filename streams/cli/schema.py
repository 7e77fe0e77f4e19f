"""`loopwarden schema`: export the published contract, check it, compare two releases of it."""

from pathlib import Path
from typing import Annotated

import typer

from schemas.contract import documents
from schemas.contract.compatibility import compare_folders
from streams.cli.outcomes import FINDINGS

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback(epilog="Example: loopwarden schema export --check")
def schema() -> None:
    """Export the published contract: JSON Schemas (2020-12) of all messages and an AsyncAPI 3.1 document."""


@app.command(epilog="Example: loopwarden schema export contract/")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="gets jsonschema/*.json and asyncapi.json")] = Path("schemas"),
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit 1 when the files there differ")] = False,
) -> None:
    """Write the JSON Schemas and the AsyncAPI document, generated from the models."""
    if check:
        if not folder.is_dir():
            raise typer.BadParameter(f"{folder}: no such folder", param_hint="DIR")
        _report(list(documents.differences(folder)))
        typer.echo(f"{folder}: all {len(documents.documents())} files are as generated")
        return
    written = documents.write(folder)
    for path in written:
        typer.echo(f"{path}: written")
    typer.echo(f"{len(written)} files written, {len(documents.documents()) - len(written)} unchanged")
    for path in documents.left_over(folder):
        typer.echo(f"loopwarden: {path}: no longer generated, remove it", err=True)


@app.command(epilog="Example: loopwarden schema compare released/jsonschema schemas/jsonschema")
def compare(
    old: Annotated[Path, typer.Argument(help="folder with the JSON Schemas of a release")],
    new: Annotated[Path, typer.Argument(help="folder with those that are to follow it")] = Path("schemas/jsonschema"),
) -> None:
    """Say which changes break programs that were written against the older schemas; exit 1 when there are any."""
    for folder in (old, new):
        if not any(folder.glob("*.json")):
            raise typer.BadParameter(f"{folder}: no JSON Schemas (*.json) there")
    _report([str(found) for found in compare_folders(old, new, views=documents.VIEWS)])
    typer.echo("compatible: whoever works with the older schemas works with the newer ones")


def _report(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"loopwarden: {problem}", err=True)
    if problems:
        raise typer.Exit(FINDINGS)
