"""Tell apart runs of different files that have one name and count from the beginning again."""

from collections import OrderedDict

#: Runs remembered over all files of a scan.
_MAX_RUNS = 200_000


class RunNames:
    """The last sequence of each run, and the file that it stood in.

    A run goes on in another file when its sequences do. Where they do not, the other file has a run of its own by the same name.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def goes_on(self, run_id: str, file: str, sequence: int) -> bool:
        """Say whether a sequence of a file may belong to the run of that name in the files before; true for a new name."""
        known = self._last.get(run_id)
        return known is None or known[0] == file or sequence > known[1]

    def reached(self, run_id: str, file: str, sequence: int) -> None:
        """Remember how far a run has come."""
        known = self._last.get(run_id)
        self._last[run_id] = (file, sequence if known is None else max(sequence, known[1]))
        self._last.move_to_end(run_id)
        if len(self._last) > _MAX_RUNS:
            self._last.popitem(last=False)
