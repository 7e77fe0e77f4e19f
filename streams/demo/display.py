"""The demo on a terminal, or as the same plain lines elsewhere."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.decisions import Decision
from schemas.events import ToolCallStarted
from streams.cli.terminal import printable
from streams.demo.recordings import short_arguments
from streams.demo.tally import RunTally, Tally

_STYLES = {"abort": "bold red", "block": "bold red", "warn": "bold yellow"}

#: Columns of the run's name; longer ones push the rest to the right.
_NAME_WIDTH = 17

#: Rows of the summary: what fits on a screen.
_MAX_ROWS = 40

#: Where there is no terminal to ask for its width.
_PLAIN_WIDTH = 120


class Display:
    """Prints calls and verdicts as they come, and the summary; texts of events cannot send terminal codes."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=_PLAIN_WIDTH)

    def say(self, text: str) -> None:
        """Print a remark."""
        self._print(Text(text, style="dim"))

    def call(self, number: int, call: ToolCallStarted) -> None:
        """Print a call that goes ahead."""
        arguments = printable(short_arguments(call.params))
        self._print(Text(f"  {_name(call.run_id)} call {number:>3}  {printable(call.tool)}  {arguments}"))

    def compaction(self, run_id: str) -> None:
        """Print that the context of a run was compacted."""
        self._print(Text(f"  {_name(run_id)} context compacted", style="dim"))

    def verdict(self, decision: Decision) -> None:
        """Print a verdict with its reason."""
        head = Text(f"{decision.action.upper():<6}", style=_STYLES.get(decision.action, "bold"))
        self._print(
            Text.assemble(head, f"{_name(decision.run_id)} {printable(decision.detector)}: {printable(decision.message)}")
        )

    def summary(self, tally: Tally) -> None:
        """Print what was seen, judged and would have been saved, run by run."""
        table = Table("run", "calls", "verdicts (first after call)", "saved", pad_edge=False, box=None, padding=(0, 2, 0, 0))
        table.columns[0].overflow = "fold"
        for column in (1, 3):
            table.columns[column].justify = "right"
        judged = sorted(tally.runs.items(), key=lambda item: not item[1].verdicts)  # those with verdicts first
        for run_id, run in judged[:_MAX_ROWS]:
            table.add_row(Text(printable(run_id)), str(len(run.calls)), _verdicts(run), str(run.saved or ""))
        stopped = sum(1 for run in tally.runs.values() if any(action != "warn" for action, _ in run.verdicts))
        self._console.print()
        self._console.print(table)
        if len(judged) > _MAX_ROWS:
            self.say(f"... and {len(judged) - _MAX_ROWS} more runs")
        self._console.print()
        self._print(
            Text(
                f"{_counted(tally.calls, 'call')} seen, {_counted(len(tally.runs), 'run')} judged, {stopped} stopped:"
                f" {_counted(tally.saved, 'call')} would have been saved.",
                style="bold",
            )
        )
        self.say("Saved: calls that were started although their verdict already was BLOCK, or after the ABORT of their run.")

    def how_to_go_on(self) -> None:
        """Print the next steps."""
        self._console.print()
        self._print(Text("Your own runs:       loopwarden demo FILE...   (event lines, or a list of tool calls)"))
        self._print(Text("Piece by piece:      loopwarden broker, loopwarden worker, loopwarden publish"))
        self._print(Text("Connecting a gateway, policies, running it for real: README.md"))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _name(run_id: str) -> str:
    return f"{printable(run_id):<{_NAME_WIDTH}}"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _verdicts(run: RunTally) -> Text:
    parts = []
    for (action, detector), decision in run.verdicts.items():
        where = f" ({run.call_number(decision.as_of)})"
        parts.append(Text.assemble((action.upper(), _STYLES.get(action, "")), f" {printable(detector)}{where}"))
    return Text(", ").join(parts) if parts else Text("none", style="green")
