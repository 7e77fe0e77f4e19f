"""The style of HTML reports: on a screen in the light and in the dark, and on paper.

Seven of the eight colours are those of Okabe and Ito (2008), which people with any colour vision can tell apart; each call has a
letter too.
"""

from typing import Final

#: Background and text of each lettered signature.
SIGNATURE_COLOURS: Final = (
    ("#0072b2", "#fff"),
    ("#e69f00", "#000"),
    ("#009e73", "#000"),
    ("#cc79a7", "#000"),
    ("#56b4e9", "#000"),
    ("#d55e00", "#000"),
    ("#f0e442", "#000"),
    ("#5e3c99", "#fff"),
)

_BASE: Final = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --panel: #f6f8fa;
  --cell: #d8dee4; --cell-ink: #1b1f24; --bad: #b3261e; --warn: #8a5a00; --good: #1a7f37; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --ink: #e6edf3; --soft: #9da7b3; --line: #30363d; --panel: #161b22;
    --cell: #3d444d; --cell-ink: #e6edf3; --bad: #ff8078; --warn: #e3b341; --good: #56d364; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .25rem 0; } .soft { color: var(--soft); } code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
.totals { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.totals li { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem; background: var(--panel); }
.totals b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
section.run { border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1rem; margin: .9rem 0; }
section.run > header { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: baseline; }
.badge { border: 1px solid currentColor; border-radius: 1rem; padding: 0 .6rem; font-size: .85rem; font-weight: 600; }
.healthy { color: var(--good); } .warned { color: var(--warn); } .stopped { color: var(--bad); }
table { border-collapse: collapse; margin: .5rem 0; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; }
.loop { border-left: 4px solid var(--warn); padding: .1rem 0 .1rem .75rem; margin: .6rem 0; }
.loop.critical { border-color: var(--bad); }
.strip { display: flex; flex-wrap: wrap; gap: 2px; margin: .75rem 0; }
.strip i, .key { font: 600 10px/14px ui-monospace, monospace; width: 14px; height: 18px; text-align: center; font-style: normal;
  background: var(--cell); color: var(--cell-ink); border-radius: 2px; border-bottom: 4px solid transparent; }
.key { display: inline-block; vertical-align: middle; }
.strip i.same, .key.same { border-bottom-color: var(--ink); }
.strip i.error, .key.error { border-bottom: 4px double var(--bad); }
.strip i.unknown, .key.unknown { background-image: repeating-linear-gradient(45deg, transparent 0 3px, var(--page) 3px 5px); }
.strip i.blocked, .key.blocked { text-decoration: line-through; opacity: .6; }
.strip i.told, .key.told { box-shadow: 0 -3px 0 var(--bad); }
.strip b, .key.mark { font: 700 11px/18px ui-monospace, monospace; height: 18px; min-width: 14px; padding: 0 3px;
  text-align: center; border-radius: 2px; border: 1px solid currentColor; width: auto; background: none; }
.strip b.warn, .key.warn { color: var(--warn); } .strip b.stop, .key.stop { color: var(--bad); background: none; }
.strip b.stop { background: var(--bad); color: var(--page); }
.strip b.compaction, .strip b.prompt, .key.plain { color: var(--soft); } .strip b.prompt { border-color: transparent; }
.strip b.gap { color: var(--soft); }
details > summary { cursor: pointer; font-weight: 600; margin: .5rem 0; }
@media print {
  :root { color-scheme: light; --page: #fff; --ink: #000; --soft: #444; --line: #999; --panel: #fff; --cell: #ddd;
    --cell-ink: #000; --bad: #b3261e; --warn: #7a4f00; --good: #145c28; }
  @page { margin: 14mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  .strip i, .strip b, .key { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
  h2, h3, header { break-after: avoid; } tr, .loop { break-inside: avoid; }
}
"""


def style_sheet() -> str:
    """Return the whole style sheet; it names no address and needs nothing from elsewhere."""
    colours = "\n".join(
        f".s{number}, .strip i.s{number} {{ background-color: {background}; color: {ink}; }}"
        for number, (background, ink) in enumerate(SIGNATURE_COLOURS)
    )
    return _BASE + colours + "\n"
