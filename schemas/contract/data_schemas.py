"""The JSON Schema of a model's data, as it stands on the wire.

Pydantic's own schema, made plainer (no titles, `type: [..., null]` in place of a choice of two) and completed by the texts of the
fields and by the rules that a model checks in code.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel

from schemas.contract.field_docs import field_docs
from schemas.decisions import Target
from schemas.events import ToolCall
from schemas.policy.model import AgentEntry

Schema = dict[str, Any]

#: `read`: what our readers accept, where a null is as good as nothing. `written`: what our writers write, who leave nulls out.
View = Literal["read", "written"]

#: What a model checks in code, as far as JSON Schema can say it. The tests know which models have such checks.
_RULES: Final[Mapping[type[BaseModel], Schema]] = {
    ToolCall: {
        "anyOf": [
            {"required": ["params"]},
            {"required": ["args_hash"], "properties": {"args_hash": {"type": "string"}}},
        ]
    },
    Target: {
        "oneOf": [
            {"properties": {"scope": {"const": "run"}, "tool": False, "args_hash": False}},
            {"properties": {"scope": {"const": "tool"}, "args_hash": False}, "required": ["tool"]},
            {"properties": {"scope": {"const": "call"}}, "required": ["tool", "args_hash"]},
        ]
    },
    AgentEntry: {"properties": {"id": {"pattern": r"\S"}}},
}


def data_schema(model: type[BaseModel], *, view: View) -> Schema:
    """Return the schema of a model; what it refers to stands in its `$defs`."""
    schema = model.model_json_schema(by_alias=True, mode="serialization" if view == "written" else "validation")
    definitions: dict[str, Schema] = schema.pop("$defs", {})
    models = {kind.__name__: kind for kind in _reachable(model)}
    # Fields of one model that no schema is made for (a plain dict) have no definition; every definition has a model.
    result = _complete(schema, model, view)
    if definitions:
        result["$defs"] = {name: _complete(definitions[name], models[name], view) for name in sorted(definitions)}
    return result


def _complete(schema: Schema, model: type[BaseModel], view: View) -> Schema:
    docs = field_docs(model)
    required: list[str] = schema.get("required", [])
    properties: dict[str, Schema] = {}
    for name, field in model.model_fields.items():
        wire_name = field.alias or name
        plain = _plain(schema["properties"][wire_name], nullable=view == "read")
        if view == "written" and field.default is not None and wire_name not in required:
            required.append(wire_name)
        said = {"description": docs[name]} if name in docs else {}
        # The type first: pydantic sorts keys by name.
        properties[wire_name] = said | {key: plain[key] for key in sorted(plain, key=lambda key: (key != "type", key))}
    result: Schema = {"title": model.__name__, "description": _paragraphs(schema.get("description", "")), "type": "object"}
    if required:
        result["required"] = [name for name in properties if name in required]
    result["properties"] = properties
    if "additionalProperties" in schema:
        result["additionalProperties"] = schema["additionalProperties"]
    for kind in model.__mro__:
        for keyword, rule in _RULES.get(kind, {}).items():
            if keyword == "properties":
                for wire_name, more in rule.items():
                    properties[wire_name] |= more
            else:
                result[keyword] = rule
    return result


def _plain(schema: Schema, *, nullable: bool) -> Schema:
    """Drop titles and null defaults; write the choice between one type and null as a list of types, or as the type alone."""
    schema = {key: value for key, value in schema.items() if key != "title" and not (key == "default" and value is None)}
    if "items" in schema:
        schema["items"] = _plain(schema["items"], nullable=True)
    if "anyOf" not in schema:
        return schema
    choices = [_plain(choice, nullable=True) for choice in schema.pop("anyOf")]
    others = [choice for choice in choices if choice != {"type": "null"}]
    if len(others) == len(choices):
        return schema | {"anyOf": others}
    if len(others) > 1:
        return schema | {"anyOf": choices if nullable else others}
    (only,) = others
    if not nullable:
        return schema | only
    if isinstance(only.get("type"), str) and "enum" not in only:
        return schema | only | {"type": [only["type"], "null"]}
    return schema | {"anyOf": choices}


def _paragraphs(text: str) -> str:
    """Undo the line breaks of a docstring within its paragraphs."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _reachable(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for kind in _models_in(field.annotation):
            yield from _reachable(kind)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)
