"""The texts under the fields of a model, read from its source only when schemas are generated."""

import ast
import inspect
import textwrap
from functools import cache

from pydantic import BaseModel


@cache
def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring under each field of a model, inherited ones included, as one line."""
    docs: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            docs |= _own(kind)
    return docs


def _own(model: type[BaseModel]) -> dict[str, str]:
    definition = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - the source of a class is a class
    docs: dict[str, str] = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            docs[field.target.id] = " ".join(text.value.value.split())
    return docs
