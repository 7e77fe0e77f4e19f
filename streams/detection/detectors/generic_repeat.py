"""The same call again and again."""

from schemas.policy import EffectivePolicy
from streams.detection.history import History, Signature
from streams.detection.verdict import Verdict, signature_key_text

NAME = "generic_repeat"


def least(policy: EffectivePolicy) -> int:
    """Return the number of calls from which it may say something."""
    return policy.warning_threshold


def judge(history: History, signature: Signature, policy: EffectivePolicy) -> Verdict | None:
    """Critical from `criticalThreshold` equal outcomes in a row; a warning from `warningThreshold` calls in the history.

    The warning does not look at outcomes. Polls are left to `known_poll_no_progress`, whether it is on or not.
    """
    if signature.poll:
        return None
    tool = signature.key[0]
    if signature.streak >= policy.critical_threshold:
        return Verdict(
            detector=NAME,
            level="critical",
            count=signature.streak,
            warning_key=f"call:{signature_key_text(signature.key, signature.newest_digest)}",
            message=f"{tool} has been called {signature.streak} times with the same arguments and the same outcome, "
            "so this call is refused: try something else, or report that it does not work.",
            evidence=lambda: history.streak_calls(signature),
        )
    if signature.count < policy.warning_threshold:
        return None
    return Verdict(
        detector=NAME,
        level="warning",
        count=signature.count,
        warning_key=f"call:{signature_key_text(signature.key)}",
        message=f"{tool} has been called {signature.count} times with the same arguments: "
        "if it no longer brings anything new, try something else.",
        evidence=lambda: history.calls_with(signature),
    )
