"""The shipped test vectors for fingerprints in other languages, and the command that computes their expected values.

`fingerprint-vectors.json` is plain ASCII JSON with four lists. Inputs that end in `_json` are JSON text within a string: give the
text to a JSON parser that keeps lone surrogates and reads numbers as doubles. So the file itself can be read by any parser.

* `tool_names`: `name` -> `normalized`;
* `arguments`: `params_json` -> `canonical` (the text whose UTF-8 is hashed), `args_hash`;
* `polls`: `tool`, `params_json` -> `poll`;
* `outcomes`: `tool`, `params_json`, and `error_json`, `result_json`, both or neither -> `hashed` (canonical text of the hashed
  value, or null), `outcome_hash` (or null), `unknown_tool` (or null), `is_error`.

To add a case, write its inputs into the file and run `python -m schemas.fingerprint_vectors`, which fills in the rest; then read
the difference, because a changed hash of an old case is a break for every gateway.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from schemas import json_text
from schemas.canonical_json import canonical_bytes
from schemas.fingerprints import args_hash, is_poll, load_vectors, normalize_tool, outcome_fingerprint, outcome_value

VECTORS_FILE: Final = Path(__file__).with_name("fingerprint-vectors.json")


def compute(vectors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the vectors with every expected value computed anew from the inputs."""
    return {
        "about": vectors["about"],
        "tool_names": [{"name": case["name"], "normalized": normalize_tool(case["name"])} for case in vectors["tool_names"]],
        "arguments": [_arguments(case) for case in vectors["arguments"]],
        "polls": [
            {
                "tool": case["tool"],
                "params_json": case["params_json"],
                "poll": is_poll(case["tool"], _value(case["params_json"])),
            }
            for case in vectors["polls"]
        ],
        "outcomes": [_outcome(case) for case in vectors["outcomes"]],
    }


def render(vectors: Mapping[str, Any]) -> str:
    """Write vectors as they are shipped."""
    return json.dumps(vectors, indent=1, ensure_ascii=True) + "\n"


def _value(text: str) -> Any:
    return json_text.loads(text.encode())


def _arguments(case: Mapping[str, Any]) -> dict[str, Any]:
    params = _value(case["params_json"])
    return {
        "title": case["title"],
        "params_json": case["params_json"],
        "canonical": canonical_bytes(params).decode(),
        "args_hash": args_hash(params),
    }


def _outcome(case: Mapping[str, Any]) -> dict[str, Any]:
    tool, params = case["tool"], _value(case["params_json"])
    reported = {name: _value(case[f"{name}_json"]) for name in ("error", "result") if f"{name}_json" in case}
    value = outcome_value(tool, params, **reported)
    fingerprint = outcome_fingerprint(tool, params, **reported)
    return {
        "title": case["title"],
        "tool": tool,
        "params_json": case["params_json"],
        **{f"{name}_json": case[f"{name}_json"] for name in reported},
        "hashed": None if value is None else canonical_bytes(value).decode(),
        "outcome_hash": fingerprint.outcome_hash,
        "unknown_tool": fingerprint.unknown_tool,
        "is_error": fingerprint.is_error,
    }


if __name__ == "__main__":
    before = VECTORS_FILE.read_text(encoding="ascii")
    after = render(compute(load_vectors()))
    VECTORS_FILE.write_text(after, encoding="ascii")
    sys.stdout.write(f"{VECTORS_FILE.name}: {'unchanged' if after == before else 'rewritten'}\n")
