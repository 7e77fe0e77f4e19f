"""A tool that does not exist is called again and again."""

from schemas.policy import EffectivePolicy
from streams.detection.history import History
from streams.detection.verdict import Verdict

NAME = "unknown_tool_repeat"


def least(policy: EffectivePolicy) -> int:
    """Return the number of calls from which it may say something."""
    return policy.unknown_tool_threshold


def judge(history: History, policy: EffectivePolicy) -> tuple[str, Verdict] | None:
    """Return the tool that every call of is critical: the trailing `unknownToolThreshold` calls all missed the same tool.

    Arguments do not matter; any other call ends the streak. Part of the rolling detection, without a switch of its own.
    """
    if not policy.detectors_on:
        return None
    missing = history.missing_tool()
    if missing is None or missing.length < policy.unknown_tool_threshold:
        return None
    verdict = Verdict(
        detector=NAME,
        level="critical",
        count=missing.length,
        warning_key=f"missing:{missing.tool}:{missing.name}",
        message=f"The last {missing.length} calls of {missing.tool} were all answered that there is no tool {missing.name}, "
        "so further ones are refused: use a tool that exists.",
        evidence=lambda: history.calls[: -missing.length - 1 : -1],
    )
    return missing.tool, verdict
