"""What we say about JavaScript, asked of a JavaScript engine."""

import json
import random
import shutil
import struct
import subprocess
import unicodedata
from typing import Any

import pytest

from schemas.canonical_json import canonical_bytes
from schemas.fingerprints import load_vectors
from schemas.javascript_whitespace import WHITE_SPACE, trim
from schemas.tool_names import normalize_tool

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed: nothing to compare with")

CANONICAL = """
const canonical = (value) =>
  Array.isArray(value) ? `[${value.map(canonical).join(",")}]`
  : value !== null && typeof value === "object"
    ? `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`
  : JSON.stringify(value);
"""


def javascript(body: str, given: Any) -> Any:
    """Run the body of a function of `given`, and return what it returns; both travel as ASCII JSON."""
    script = (
        'const given = JSON.parse(require("fs").readFileSync(0, "utf8"));'
        f"const result = (() => {{ {body} }})();"
        r'const ascii = (text) => text.replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));'
        "process.stdout.write(ascii(JSON.stringify(result)));"
    )
    assert NODE is not None
    run = subprocess.run([NODE, "-e", script], input=json.dumps(given).encode(), capture_output=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return json.loads(run.stdout)


def test_numbers_are_printed_as_javascript_prints_them() -> None:
    source = random.Random(8785)
    doubles = [struct.unpack("<d", source.randbytes(8))[0] for _ in range(20_000)]
    doubles += [source.uniform(-1, 1) * 10.0**exponent for exponent in range(-12, 26) for _ in range(100)]
    doubles += [float(f"{source.randrange(10**6)}e{exponent}") for exponent in range(-12, 26) for _ in range(50)]
    doubles = [double for double in doubles if double - double == 0]
    printed = javascript("return given.map((text) => JSON.stringify(Number(text)));", [repr(double) for double in doubles])
    assert [canonical_bytes(double).decode() for double in doubles] == printed


def test_integers_are_printed_as_javascript_prints_them() -> None:
    source = random.Random(53)
    integers = [source.randrange(2**bits, 2 ** (bits + 1)) for bits in range(40, 1030, 3) for _ in range(10)]
    printed = javascript("return given.map((text) => JSON.stringify(JSON.parse(text)));", [str(number) for number in integers])
    assert [canonical_bytes(number).decode() for number in integers] == printed


def test_shipped_arguments_are_canonical_for_javascript_too() -> None:
    cases = load_vectors()["arguments"]
    printed = javascript(
        f"{CANONICAL} return given.map((text) => canonical(JSON.parse(text)));", [case["params_json"] for case in cases]
    )
    assert [case["canonical"] for case in cases] == printed


def test_shipped_outcomes_are_canonical_for_javascript_too() -> None:
    hashed = [case["hashed"] for case in load_vectors()["outcomes"] if case["hashed"] is not None]
    assert javascript(f"{CANONICAL} return given.map((text) => canonical(JSON.parse(text)));", hashed) == hashed


def test_white_space_is_what_javascript_trims_and_matches() -> None:
    trimmed, matched = javascript(
        """
        const all = Array.from({length: 65536}, (_, code) => code);
        return [
          all.filter((code) => String.fromCharCode(code).trim() === ""),
          all.filter((code) => /^\\s$/.test(String.fromCharCode(code))),
        ];
        """,
        None,
    )
    assert trimmed == matched == sorted(map(ord, WHITE_SPACE))
    assert all(trim(f"{chr(code)}x y{chr(code)}") == "x y" for code in trimmed)


def test_tool_names_are_lower_cased_as_in_javascript() -> None:
    # Characters that this Python does not know yet may have a lower case in a newer Unicode version: they are left out.
    known = [chr(code) for code in range(0x21, 0x2FA20) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    names = known + [f"A{character}" for character in known[:8000]] + [f"{character}A" for character in known[:8000]]
    lower = javascript("return given.map((name) => name.trim().toLowerCase());", names)
    different = [name for name, expected in zip(names, lower, strict=True) if normalize_tool(name) != expected]
    assert different == []
