"""Signatures, checked by the package that receivers use."""

import base64
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from streams.enforcement.signing import SecretError, WebhookSigner

OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW = "whsec_" + base64.b64encode(b"n" * 31).decode()


def test_a_receiver_that_knows_any_of_the_secrets_accepts_and_another_does_not() -> None:
    body = '{"data": "ä"}'.encode()
    headers = WebhookSigner([OLD, NEW], origin="here").headers(message_id="id-1", body=body)
    assert headers["webhook-id"] == "id-1"
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(body, headers) == {"data": "ä"}
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + base64.b64encode(b"x" * 32).decode()).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(body + b" ", headers)


def test_unpadded_and_bare_base64_are_the_same_secret() -> None:
    signed = [WebhookSigner([text], origin="here") for text in (NEW, NEW.rstrip("="), NEW.removeprefix("whsec_"))]
    for signer in signed:
        Webhook(NEW).verify(b"{}", signer.headers(message_id="i", body=b"{}"))


def test_the_file_wins_over_the_environment_and_may_hold_several(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{NEW}\n{OLD}\n")
    signer = WebhookSigner.from_environment_or_file(file, {"LOOPWARDEN_WEBHOOK_SECRET": "whsec_broken!"})
    assert signer.headers(message_id="i", body=b"{}")["webhook-signature"].count("v1,") == 2


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "holds no secret"),
        ("whsec_n.t", "must be whsec_ and base64"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!w", "must be whsec_ and base64"),
        ("whsec_c2hvcnQ=", "5 bytes, must be at least 24"),
        ("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "asymmetric"),
    ],
)
def test_an_unusable_secret_is_told_with_its_source_and_without_itself(text: str, remedy: str) -> None:
    with pytest.raises(SecretError) as caught:
        WebhookSigner.from_environment_or_file(None, {"LOOPWARDEN_WEBHOOK_SECRET": text})
    assert str(caught.value).startswith("LOOPWARDEN_WEBHOOK_SECRET: ")
    assert remedy in str(caught.value)
    assert not text or text.split()[0] not in str(caught.value)


def test_no_secret_at_all_is_told_with_the_ways_to_give_one() -> None:
    with pytest.raises(SecretError, match=r"(?s)LOOPWARDEN_WEBHOOK_SECRET.*--secret-file.*openssl.*--unsigned"):
        WebhookSigner.from_environment_or_file(None, {})


def test_a_secret_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SecretError, match="not a text file"):
        WebhookSigner.from_environment_or_file(tmp_path / "secret", {})
