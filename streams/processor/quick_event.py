"""The shape of the tool-call events that publishers send all day, as plain structs for msgspec."""

from typing import Annotated, Literal

import msgspec

_Attribute = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Label = Annotated[str, msgspec.Meta(max_length=1024)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Integer = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
_CallId = Annotated[str, msgspec.Meta(max_length=256)]

#: The value of a field that is not there.
NOT_SENT = msgspec.Raw()


class QuickData(msgspec.Struct, gc=False):
    """The data; content is left as it is on the wire."""

    run_id: _Attribute
    tool: _Name
    call_id: _CallId | None = None
    session_id: _Label | None = None
    agent_id: _Label | None = None
    parent_run_id: _Label | None = None
    round: _Integer | _Label | None = None
    args_hash: str | None = None
    poll: bool | None = None
    outcome_hash: str | None = None
    unknown_tool: _Name | None = None
    is_error: bool | None = None
    preview: str | None = None
    lost_events: _Integer | None = None
    params: msgspec.Raw = NOT_SENT
    result: msgspec.Raw = NOT_SENT
    error: msgspec.Raw = NOT_SENT


class QuickEvent(msgspec.Struct, gc=False):
    """The event around it."""

    specversion: Literal["1.0"]
    id: _Attribute
    source: _Attribute
    type: str
    data: QuickData
    time: str | None = None
    sequence: str | None = None
    data_base64: msgspec.Raw = NOT_SENT


#: Reads an event; raises `msgspec.MsgspecError` for what is none of this shape.
decode = msgspec.json.Decoder(QuickEvent).decode
