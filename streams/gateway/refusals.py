"""What a guarded tool raises instead of being called."""

from streams.gateway.verdict import Verdict


class ToolCallRefused(Exception):  # noqa: N818  (named for what happened: to the model it is no error of the program)
    """The call was not made; the text is for the model: what repeats, and how often. `verdict` is the gate's."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class RunAborted(Exception):  # noqa: N818  (as above)
    """The call was not made and the run is to be ended: no further call of it will be let through. `verdict` is the gate's.

    It is no `ToolCallRefused`: an agent that hands refusals to the model must not hand on this one.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict
