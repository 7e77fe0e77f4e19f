"""Any call that has not made progress for so long that no single rule needs to explain it."""

from schemas.policy import EffectivePolicy
from streams.detection.history import History, Signature
from streams.detection.verdict import Verdict, signature_key_text

NAME = "global_circuit_breaker"


def least(policy: EffectivePolicy) -> int:
    """Return the number of calls from which it may say something."""
    return policy.global_circuit_breaker_threshold


def judge(history: History, signature: Signature, policy: EffectivePolicy) -> Verdict | None:
    """Critical from `globalCircuitBreakerThreshold` equal outcomes in a row; polls included, and not to be switched off."""
    if signature.streak < policy.global_circuit_breaker_threshold:
        return None
    return Verdict(
        detector=NAME,
        level="critical",
        count=signature.streak,
        warning_key=f"breaker:{signature_key_text(signature.key, signature.newest_digest)}",
        message=f"The last {signature.streak} calls of {signature.key[0]} with these arguments all had the same outcome, "
        "so further ones are refused: work on something else, or report what is missing.",
        evidence=lambda: history.streak_calls(signature),
    )
