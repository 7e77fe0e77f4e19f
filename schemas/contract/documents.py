"""All generated files of the contract, and how a folder differs from them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from schemas.contract.asyncapi import asyncapi
from schemas.contract.data_schemas import View, data_schema
from schemas.contract.envelope import DIALECT
from schemas.contract.messages import MESSAGES
from schemas.policy.model import Policy

POLICY_FILE: Final = "policy-file.json"

#: In which direction each schema file may change (`schemas.contract.compatibility`).
VIEWS: Final[Mapping[str, View]] = {f"{message.name}.v1.json": message.view for message in MESSAGES} | {POLICY_FILE: "read"}


def documents() -> dict[str, bytes]:
    """Return every file of the contract: its path below the folder, and its content. The same models give the same bytes."""
    found = {f"jsonschema/{message.name}.v1.json": message.schema for message in MESSAGES}
    found[f"jsonschema/{POLICY_FILE}"] = policy_file_schema()
    found["asyncapi.json"] = asyncapi()
    return {path: _rendered(document) for path, document in found.items()}


def policy_file_schema() -> dict[str, Any]:
    """Return the schema of a policy file, JSON5 as it is after parsing."""
    schema = data_schema(Policy, view="read")
    definitions = schema.pop("$defs")
    return {"$schema": DIALECT, "$id": "urn:loopwarden:schema:policy-file", **schema, "$defs": definitions}


def write(folder: Path) -> list[Path]:
    """Write the files that differ into a folder, and return their paths; raises `OSError`."""
    written = []
    for path, content in documents().items():
        target = folder / path
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            written.append(target)
    return written


def differences(folder: Path) -> Iterator[str]:
    """Say of each file in a folder that is not as it would be generated what is wrong with it."""
    generated = documents()
    for path, content in generated.items():
        target = folder / path
        if not target.exists():
            yield f"{target}: missing"
        elif target.read_bytes() != content:
            yield f"{target}: not what the models say"
    yield from (f"{path}: no longer generated, remove it" for path in left_over(folder))


def left_over(folder: Path) -> list[Path]:
    """Return the schema files in a folder that are no longer generated."""
    generated = documents()
    return sorted(path for path in folder.glob("jsonschema/*.json") if f"jsonschema/{path.name}" not in generated)


def _rendered(document: object) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
