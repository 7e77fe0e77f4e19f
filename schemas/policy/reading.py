"""Reads policy files strictly: whatever the detection would ignore or guess in our blocks is an error with its place."""

from pathlib import Path
from typing import Final

from schemas.policy.document import PolicyDocument
from schemas.policy.faults import find_faults
from schemas.policy.positions import Lines, find_places
from schemas.policy.problems import PolicyError, PolicyProblem
from schemas.policy.syntax import parse_json5

#: A whole openclaw.json is some hundred kilobytes at most.
MAX_FILE_BYTES: Final = 4 * 1024 * 1024


def read_policy(path: Path) -> PolicyDocument:
    """Read a policy file: JSON5 in OpenClaw's shape, a whole `openclaw.json` included.

    Raises `PolicyError` when there is none, or for all faults in it.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _whole_file(name, "no such file") from None
    except IsADirectoryError:
        raise _whole_file(name, "is a folder; name a file in it") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise _whole_file(name, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise _whole_file(name, f"is larger than {MAX_FILE_BYTES // 1024**2} MiB; is this a policy file?")
    try:
        # A byte order mark at the start is no fault: some editors write one, and JSON5 takes it for white space.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        readable = content.decode("utf-8-sig", errors="replace").split("\N{REPLACEMENT CHARACTER}", 1)[0]
        line, column = Lines(readable).locate(len(readable))
        message = "not UTF-8 from here on; save the file as UTF-8"
        raise PolicyError(name, [PolicyProblem(line=line, column=column, message=message)]) from None
    return parse_policy(text, name=name)


def parse_policy(text: str, *, name: str) -> PolicyDocument:
    """Read the text of a policy file; `name` stands in front of each problem.

    Raises `PolicyError` for all faults in it.
    """
    document = parse_json5(text, name=name)
    if problems := find_faults(document, places=find_places(text), lines=Lines(text)):
        raise PolicyError(name, problems)
    return PolicyDocument.from_mapping(document)


def _whole_file(name: str, message: str) -> PolicyError:
    return PolicyError(name, [PolicyProblem(message=message)])
