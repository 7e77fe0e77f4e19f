"""The published schemas accept what the models accept, but for the differences that `docs/contract.md` lists."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as SchemaError
from pydantic import BaseModel

from schemas.cloudevents import InvalidEventError
from schemas.contract.data_schemas import data_schema
from schemas.contract.documents import policy_file_schema
from schemas.contract.messages import MESSAGES, Message
from schemas.decisions import Decision, Target
from schemas.deliveries import Delivery
from schemas.events import ToolCall, parse_event
from schemas.policy import PolicyError, parse_policy
from schemas.policy.model import AgentEntry, Block
from schemas.policy_applied import PolicyApplied
from schemas.policy_records import read_policy_record

BY_NAME = {message.name: message for message in MESSAGES}
READ = [message for message in MESSAGES if message.view == "read"]
WRITTEN: Mapping[str, type[Decision] | type[PolicyApplied] | type[Delivery]] = {
    "decision": Decision,
    "policy.applied": PolicyApplied,
    "delivery": Delivery,
}

HASH = "4523ef7c9c382cf2704e527a88225cd4"
TIMES = [
    "2026-11-30T12:00:00Z", "2026-11-30t12:00:00.123456789+01:00", "2026-11-30T12:00:00z", "2026-11-30T12:00:00", "2026-11-30",
    "2026-02-30T12:00:00Z", "2026-11-30T23:59:60Z", "0000-01-01T00:00:00Z", "2026-11-30T12:00:00+24:00",
    "2026-11-30T12:00:00+0100", "2026-W48-1T12:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T12:00:00.Z",
]  # fmt: skip
SEQUENCES = [
    "0",
    "0001796040000000000",
    "9223372036854775807",
    "9223372036854775808",
    "0" * 20 + "7",
    "-1",
    "+1",
    "\uff11\uff12",
    "",
]
ODD_VALUES = [
    None, True, False, 0, 1, 2, -1, 1.0, 1.5, 2**53, 2**64, 10**30, 1e300, "", " ", "x", "true", "off", "12", "y" * 257,
    "z" * 1025, HASH, HASH.upper(), HASH + "0", HASH + "\n", "é\U0001f9a4", "a\ud83e", [], {}, {"a": [1]}, ["x"], ["ping_pong"],
    *TIMES, *SEQUENCES,
]  # fmt: skip
VALUES = st.sampled_from(ODD_VALUES) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)


def members(
    schema: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every member that a schema names, through its references and choices."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    for choice in schema.get("anyOf", ()):
        yield from members(choice, root, path)
    if isinstance(schema.get("items"), dict):
        yield from members(schema["items"], root, (*path, 0))
    for name, member in schema.get("properties", {}).items():
        yield (*path, name)
        if isinstance(member, dict):
            yield from members(member, root, (*path, name))


def edited(instance: Any, path: tuple[str | int, ...], value: Any, *, remove: bool) -> Any:
    """Copy an instance with one member set or removed; what is missing on the way there is made."""
    instance = copy.deepcopy(instance)
    at = instance
    for step, following in pairwise(path):
        if isinstance(at, dict) and step not in at:
            at[step] = [] if following == 0 else {}
        if isinstance(at, list) and not at:
            at.append({})
        try:
            at = at[step]
        except (KeyError, TypeError, IndexError):
            return instance
    if isinstance(at, dict):
        if remove:
            at.pop(path[-1], None)
        else:
            at[path[-1]] = value
    return instance


def instances(schema: Mapping[str, Any], examples: list[Any]) -> st.SearchStrategy[Any]:
    """Make instances near the examples: up to three members set to something else, or removed."""
    paths = sorted({*members(schema, schema), ("of_a_newer_release",)}, key=str)
    edits = st.lists(st.tuples(st.sampled_from(paths), VALUES, st.booleans()), min_size=1, max_size=3)

    def apply(instance: Any, steps: list[tuple[tuple[str | int, ...], Any, bool]]) -> Any:
        for path, value, remove in steps:
            instance = edited(instance, path, value, remove=remove)
        return instance

    return st.builds(apply, st.sampled_from(examples), edits)


def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def on_the_wire(instance: Any) -> bytes:
    """Write an instance as JSON text, with escapes for what UTF-8 cannot hold."""
    return json.dumps(instance, ensure_ascii=True).encode()


def refusal(message: Message, instance: Any) -> str | None:
    """Read a message as we do; returns why it is refused, None when it is not."""
    value = on_the_wire(instance)
    try:
        if message.name == "policy":
            read_policy_record(b"*", value)
        elif message.name in WRITTEN:
            WRITTEN[message.name].from_record(value)
        else:
            run_id = instance["data"].get("run_id") if isinstance(instance.get("data"), dict) else None
            key = run_id.encode("utf-8", "surrogatepass") if isinstance(run_id, str) else b"run"
            parse_event(value, key=key, max_bytes=1 << 20)
    except InvalidEventError as error:
        return str(error)
    return None


def policy_refusal(document: Any) -> str | None:
    """Read a policy file; returns why it is refused, None when it is not."""
    try:
        parse_policy(on_the_wire(document).decode(), name="policy")
    except PolicyError as error:
        return str(error)
    return None


def leaves(error: SchemaError) -> Iterator[SchemaError]:
    if error.context:
        for inner in error.context:
            yield from leaves(inner)
    else:
        yield error


def has_half_character(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


# Differences, each with its reason. The left-hand side is what `docs/contract.md` lists.

#: The worker refuses it although the schema cannot: a test of the instance and of the reader's message.
BEYOND_SCHEMA: Mapping[str, Callable[[Any, str], bool]] = {
    "half a character in a text": lambda instance, said: (
        has_half_character(instance) and ("unicode" in said or "half of a surrogate pair" in said)
    ),
    "a time that a calendar or a clock does not have (leap second, year 0, offset of a day)": lambda _, said: (
        "must be an RFC 3339 time" in said
    ),
    # In Python, `$` also matches before a line end at the end; elsewhere, and for us, it does not.
    "a line end behind a text, to validators written in Python": lambda instance, said: (
        "\\n" in json.dumps(instance) and "pattern" in said
    ),
    "a whole number beyond 64 bits": lambda _, said: "valid integer" in said or "exceeded maximum size" in said,
    "an agent id of white space as Python has it": lambda _, said: "expected an agent id" in said,
    "thresholds of one block in the wrong order": lambda _, said: "is not above" in said,
    "the name of a block slightly wrong, or a key at the wrong level": lambda _, said: (
        "has no effect here" in said or "did you mean" in said
    ),
}
#: The worker reads it although the contract does not promise that: a test of what the schema finds.
BEYOND_CONTRACT: Mapping[str, Callable[[SchemaError], bool]] = {
    "a truth value as text or number": lambda error: error.validator == "type" and "boolean" in error.validator_value,
    "a whole number as text or truth value": lambda error: error.validator == "type" and "integer" in error.validator_value,
    "a time of another ISO 8601 form": lambda error: (
        list(error.path)[-1:] == ["time"] and error.validator in {"pattern", "format"}
    ),
    "a sequence above 9e18": lambda error: list(error.path) == ["sequence"] and error.validator == "pattern",
    "an attribute that is not looked at": lambda error: (
        list(error.path)[:1] in (["subject"], ["partitionkey"], ["datacontenttype"])
    ),
    "time or sequence null": lambda error: list(error.path) in (["time"], ["sequence"]) and error.instance is None,
}


def beyond_schema(instance: Any, said: str) -> bool:
    """Whether the reader refuses an instance for one of the reasons that a schema cannot give."""
    return any(holds(instance, said) for holds in BEYOND_SCHEMA.values())


@pytest.mark.parametrize("message", READ, ids=lambda message: message.name)
def test_what_we_read_is_accepted_by_schema_and_model_alike(message: Message) -> None:
    schema = message.schema
    check = validator(schema)

    @given(instances(schema, list(message.examples.values())))
    def agree(instance: Any) -> None:
        errors = list(check.iter_errors(instance))
        refused = refusal(message, instance)
        if refused is not None:
            assert errors or beyond_schema(instance, refused), (refused, instance)
            return
        for error in errors:
            # Of a choice one branch would do; each has its own reason why it does not hold.
            known = [leaf for leaf in leaves(error) if any(reason(leaf) for reason in BEYOND_CONTRACT.values())]
            assert known, (error.message, instance)

    agree()


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_written_schema_promises_our_own_reader_reads(name: str) -> None:
    message = BY_NAME[name]
    schema = message.schema
    check = validator(schema)

    @given(instances(schema, list(message.examples.values())))
    def agree(instance: Any) -> None:
        refused = refusal(message, instance)
        assert refused is None or not check.is_valid(instance) or beyond_schema(instance, refused), (refused, instance)

    agree()


@pytest.mark.parametrize("name", WRITTEN)
def test_whatever_we_write_keeps_what_its_schema_promises(name: str) -> None:
    message = BY_NAME[name]
    schema = message.schema
    check = validator(schema)

    @given(instances(schema, list(message.examples.values())))
    def agree(instance: Any) -> None:
        try:
            model = WRITTEN[name].from_record(on_the_wire(instance))
            written = model.to_record() if isinstance(model, Delivery) else model.to_record(source="loopwarden/test")
        except (InvalidEventError, OverflowError, ValueError):
            return  # not something that we could have to write
        if len(getattr(model, "group", "")) > 249:
            return  # Kafka's own limit for names is lower than that of a source
        check.validate(json.loads(written))

    agree()


def test_policy_files_are_accepted_by_schema_and_reader_alike() -> None:
    schema = policy_file_schema()
    check = validator(schema)
    examples = [example["data"] for example in BY_NAME["policy"].examples.values()]

    @given(instances(schema, [*examples, {}, {"tools": {"loopDetection": {"enabled": True}}}]))
    @example({"tools": {"loopDetection": {"historySize": 30.0}}})
    @example({"tools": {"loopDetection": {"historySize": 0}}})
    @example({"tools": {"loopDetection": {"historysize": 30}}})
    @example({"agents": {"list": [{"tools": {}}]}, "channels": {"telegram": {"enabled": True}}})
    def agree(instance: Any) -> None:
        valid, refused = check.is_valid(instance), policy_refusal(instance)
        assert valid == (refused is None) or (valid and refused and beyond_schema(instance, refused)), (valid, refused, instance)

    agree()


def test_every_check_that_a_model_makes_in_code_stands_in_its_schema() -> None:
    """A new validator on a model must be put into the rules of the schema, or into the lists above."""
    known = {ToolCall: {"_identified"}, Target: {"_complete"}, Block: {"_drop_unknown_keys"}}
    seen: set[type[BaseModel]] = set()

    def visit(model: type[BaseModel]) -> None:
        for kind in model.__mro__:
            if issubclass(kind, BaseModel) and kind not in seen:
                seen.add(kind)
                own = {name for name in kind.__pydantic_decorators__.model_validators if name in vars(kind)}
                assert own == known.get(kind, set()), f"{kind.__name__}: {own}"

    for message in MESSAGES:
        visit(message.model)
        for name in data_schema(message.model, view=message.view).get("$defs", {}):
            visit({kind.__name__: kind for kind in (*_subclasses(BaseModel),)}[name])
    assert {ToolCall, Target, AgentEntry} <= seen


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)
