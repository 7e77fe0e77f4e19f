"""Standard Webhooks signatures: the secrets, and the headers that they give."""

import base64
import binascii
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from standardwebhooks import Webhook

SECRET_VARIABLE = "LOOPWARDEN_WEBHOOK_SECRET"  # noqa: S105 - a name, not a secret

#: The shortest key in bytes that the Standard Webhooks specification allows.
SHORTEST_KEY = 24

_PREFIX = "whsec_"


class SecretError(ValueError):
    """A secret is missing or cannot be used; the message names its source and the remedy, never the secret."""


class WebhookSigner:
    """Signs with one or more secrets: while a secret is being replaced, the receiver may know the old or the new one."""

    def __init__(self, secrets: list[str], *, origin: str) -> None:
        """Take the secrets, `whsec_` and base64 each; `origin` is where they come from, for error messages."""
        if not secrets:
            raise SecretError(f"{origin}: holds no secret")
        self._webhooks = [_webhook(secret, origin) for secret in secrets]

    @classmethod
    def from_environment_or_file(cls, file: Path | None, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the secrets, separated by white space, from the file if one is given, else from LOOPWARDEN_WEBHOOK_SECRET.

        Raises `SecretError`, and `OSError` when the file cannot be read.
        """
        if file is not None:
            try:
                return cls(file.read_text(encoding="utf-8").split(), origin=str(file))
            except UnicodeDecodeError:
                raise SecretError(f"{file}: not a text file; it must hold a secret, `whsec_` and base64") from None
        if SECRET_VARIABLE in environment:
            return cls(environment[SECRET_VARIABLE].split(), origin=SECRET_VARIABLE)
        raise SecretError(
            f"no secret to sign webhooks with: set {SECRET_VARIABLE} or give --secret-file; one can be made with\n"
            '  echo "whsec_$(openssl rand -base64 32)"\n'
            "or send without signatures with --unsigned"
        )

    def headers(self, *, message_id: str, body: bytes, now: datetime | None = None) -> dict[str, str]:
        """Return `webhook-id`, `webhook-timestamp` (of this attempt) and `webhook-signature`."""
        moment = (now or datetime.now(tz=UTC)).replace(microsecond=0)
        text = body.decode()
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": " ".join(webhook.sign(message_id, moment, text) for webhook in self._webhooks),
        }


def _webhook(secret: str, origin: str) -> Webhook:
    if secret.startswith(("whsk_", "whpk_")):
        raise SecretError(f"{origin}: asymmetric keys (whsk_, whpk_) are not supported; use a secret that begins with {_PREFIX}")
    try:
        # The package skips characters that are not base64: a broken secret would sign, with another key than is meant.
        encoded = secret.removeprefix(_PREFIX).rstrip("=")
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SecretError(f"{origin}: not a secret: must be {_PREFIX} and base64") from None
    if len(key) < SHORTEST_KEY:
        raise SecretError(f"{origin}: the secret is too short: {len(key)} bytes, must be at least {SHORTEST_KEY}")
    return Webhook(key)
