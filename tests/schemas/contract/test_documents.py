"""The committed contract is what the models say, and holds together."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import schemas
import streams
from schemas.cloudevents import TYPE_PREFIX
from schemas.contract import documents
from schemas.contract.asyncapi import asyncapi
from schemas.contract.data_schemas import data_schema
from schemas.contract.field_docs import field_docs
from schemas.contract.messages import MESSAGES
from schemas.decisions import Decision
from schemas.events import EVENTS, ToolCallFinished, parse_event
from schemas.topics import Topics

COMMITTED = Path(schemas.__file__).parent
SCHEMA_FILES = sorted(COMMITTED.glob("jsonschema/*.json"))


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, f"{path}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, f"{path}/{index}")


def test_the_committed_files_are_the_generated_ones() -> None:
    assert list(documents.differences(COMMITTED)) == [], "run `loopwarden schema export`"


def test_generating_again_in_another_process_gives_the_same_bytes() -> None:
    """Nothing depends on the order of a set, on the time or on the machine."""
    code = "import sys; from schemas.contract.documents import documents; sys.stdout.buffer.write(b''.join(documents().values()))"
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LOOPWARDEN_TOPIC_PREFIX": "eu."}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert other.stdout == b"".join(documents.documents().values())


@pytest.mark.parametrize("file", SCHEMA_FILES, ids=lambda file: file.stem)
def test_each_schema_is_one_of_2020_12_and_needs_no_other_file(file: Path) -> None:
    schema = json.loads(file.read_text("utf-8"))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    for path, value in walk(schema):
        if path.endswith("/$ref"):
            assert value.removeprefix("#/$defs/") in schema["$defs"], path


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_the_examples_of_a_message_fit_its_schema(message: Any) -> None:
    check = Draft202012Validator(message.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert message.examples
    for example in message.examples.values():
        check.validate(example)
        assert example["type"] == message.event_type


def test_the_examples_of_events_are_read_and_of_decisions_written_back_unchanged() -> None:
    for message in MESSAGES:
        for example in message.examples.values():
            value = json.dumps(example).encode()
            if message.sequenced:
                parse_event(value, key=example["data"]["run_id"].encode(), max_bytes=1 << 20)
            elif message.name == "decision":
                assert json.loads(Decision.from_record(value).to_record(source=example["source"])) == example


def test_every_field_says_what_it_is() -> None:
    for message in MESSAGES:
        schema = message.data_schema
        for definition in (schema, *schema.get("$defs", {}).values()):
            assert definition["description"]
            for name, member in definition["properties"].items():
                assert member.get("description"), f"{definition['title']}.{name} has no docstring"


def test_docstrings_of_inherited_fields_count_too() -> None:
    docs = field_docs(ToolCallFinished)
    assert docs["run_id"].startswith("The run")
    assert docs["outcome_hash"].startswith("Hash of what the outcome means")


def test_a_decision_promises_what_is_always_written_and_never_a_null() -> None:
    schema = data_schema(Decision, view="written")
    assert {"decision_id", "mode", "late", "evidence", "since", "as_of"} <= set(schema["required"])
    assert not {"paired_tool", "session_id", "reason"} & set(schema["required"])
    assert not [path for path, value in walk(schema) if value == "null"]


def test_the_references_of_the_asyncapi_document_lead_somewhere() -> None:
    document = asyncapi()
    for path, value in walk(document):
        if path.endswith("/$ref"):
            at: Any = document
            for step in value.removeprefix("#/").split("/"):
                at = at[step]
            assert at, path


def test_all_channels_and_messages_are_used_and_bound_to_kafka() -> None:
    document = asyncapi()
    named = {reference["$ref"] for channel in document["channels"].values() for reference in channel["messages"].values()}
    assert named == {f"#/components/messages/{name}" for name in document["components"]["messages"]}
    assert {operation["channel"]["$ref"] for operation in document["operations"].values()} == {
        f"#/channels/{name}" for name in document["channels"]
    }
    for part in (*document["channels"].values(), *document["components"]["messages"].values()):
        assert part["bindings"]["kafka"]["bindingVersion"] == "0.5.0"


def test_the_examples_in_the_asyncapi_document_fit_their_payloads_and_headers() -> None:
    document = asyncapi()
    for name, message in document["components"]["messages"].items():
        for example in message["examples"]:
            for part in ("payload", "headers"):
                if part in example:
                    schema = {**message[part], "components": document["components"]}
                    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(example[part])
        assert message["examples"], name


def test_an_edited_missing_or_left_over_file_is_a_difference(tmp_path: Path) -> None:
    assert len(documents.write(tmp_path)) == len(documents.documents())
    assert documents.write(tmp_path) == []
    (tmp_path / "asyncapi.json").write_text("{}\n")
    (tmp_path / "jsonschema/decision.v1.json").unlink()
    (tmp_path / "jsonschema/decision.v0.json").write_text("{}\n")
    found = list(documents.differences(tmp_path))
    assert [line.rsplit("/", 1)[1] for line in found] == [
        "decision.v1.json: missing",
        "asyncapi.json: not what the models say",
        "decision.v0.json: no longer generated, remove it",
    ]


def test_every_topic_is_a_channel_and_every_type_a_message() -> None:
    """A topic or a type that is added later has to come into the contract."""
    addresses = {channel["address"] for channel in asyncapi()["channels"].values()}
    assert addresses == {spec.name for spec in Topics().specs(partitions=1, max_event_bytes=1)}
    types = {message.event_type for message in MESSAGES}
    for module in pkgutil.iter_modules(schemas.__path__):
        names = vars(importlib.import_module(f"schemas.{module.name}")).items()
        found = {value for name, value in names if name.endswith("_TYPE") and str(value).startswith(TYPE_PREFIX)}
        assert found <= types, module.name
    assert EVENTS.keys() <= types


def test_the_recorded_runs_that_we_ship_fit_the_schemas() -> None:
    checks = {
        message.event_type: Draft202012Validator(message.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for message in MESSAGES
    }
    files = sorted((Path(streams.__file__).parent / "demo/runs").glob("*.jsonl"))
    assert files
    for file in files:
        for line in file.read_text("utf-8").splitlines():
            event = json.loads(line)
            checks[event["type"]].validate(event)
