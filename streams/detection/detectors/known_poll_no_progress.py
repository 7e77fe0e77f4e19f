"""A poll whose answer does not change."""

from schemas.policy import EffectivePolicy
from streams.detection.history import History, Signature
from streams.detection.verdict import Verdict, signature_key_text

NAME = "known_poll_no_progress"


def least(policy: EffectivePolicy) -> int:
    """Return the number of calls from which it may say something."""
    return policy.warning_threshold


def judge(history: History, signature: Signature, policy: EffectivePolicy) -> Verdict | None:
    """Critical from `criticalThreshold` equal outcomes of a poll in a row, a warning from `warningThreshold`."""
    if not signature.poll or signature.streak < policy.warning_threshold:
        return None
    critical = signature.streak >= policy.critical_threshold
    advice = "further ones are refused until other work is done" if critical else "wait longer, or do other work"
    return Verdict(
        detector=NAME,
        level="critical" if critical else "warning",
        count=signature.streak,
        warning_key=f"poll:{signature_key_text(signature.key, signature.newest_digest)}",
        message=f"The last {signature.streak} polls with {signature.key[0]} all had the same answer: {advice}.",
        evidence=lambda: history.streak_calls(signature),
    )
