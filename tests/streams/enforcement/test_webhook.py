"""Posting to endpoints that behave and to endpoints that do not."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web
from standardwebhooks import Webhook

from schemas.decisions import Decision, Origin
from streams.enforcement.envelope import DecisionEnvelope
from streams.enforcement.receiver import NoAnswerError, RefusedError
from streams.enforcement.signing import WebhookSigner
from streams.enforcement.webhook import WebhookReceiver, WebhookUrlError, without_secrets
from tests.streams.enforcement.conftest import SECRET, Hook, status, until

Make = Callable[..., Decision]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def envelope(decision_factory: Make) -> DecisionEnvelope:
    decision = decision_factory()
    return DecisionEnvelope(Origin(topic="t", partition=0, offset=0), decision, decision.to_record(source="/w"))


@asynccontextmanager
async def receiver(url: str, **options: object) -> AsyncIterator[WebhookReceiver]:
    made = WebhookReceiver(url, signer=WebhookSigner([SECRET], origin="here"), **options)  # type: ignore[arg-type] # any of them
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def server(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve connections by hand, for what no HTTP library would send."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/hook?token=s3cret"
    finally:
        listening.close()


def saying(answer: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    return talk


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    return head + await reader.readexactly(length)


async def test_what_is_posted_is_a_signed_cloudevent(hook: Hook, envelope: DecisionEnvelope) -> None:
    async with receiver(hook.url) as made:
        await made.hand_over(envelope)
    (headers,), (body,) = hook.headers, hook.bodies
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert headers["webhook-id"] == envelope.decision.decision_id
    event = Webhook(SECRET).verify(body, headers)
    assert event["id"] == envelope.decision.decision_id
    assert Decision.model_validate(event["data"]) == envelope.decision


async def test_the_signature_is_of_the_time_of_each_attempt(hook: Hook, envelope: DecisionEnvelope) -> None:
    async with receiver(hook.url) as made:
        await made.hand_over(envelope)
        second = int(hook.headers[0]["webhook-timestamp"])
        await until(lambda: int(time.time()) > second)
        await made.hand_over(envelope)
    first, again = hook.headers
    assert first["webhook-id"] == again["webhook-id"]
    assert int(again["webhook-timestamp"]) > second
    Webhook(SECRET).verify(hook.bodies[1], again)


@pytest.mark.parametrize("code", [200, 201, 202, 204, 299])
async def test_every_2xx_is_an_answer(hook: Hook, envelope: DecisionEnvelope, code: int) -> None:
    hook.answer("run", status(code))
    async with receiver(hook.url) as made:
        await made.hand_over(envelope)


@pytest.mark.parametrize("code", [301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 410, 413, 418, 422, 451, 499])
async def test_redirects_and_client_errors_are_refusals_and_not_followed(
    hook: Hook, envelope: DecisionEnvelope, code: int
) -> None:
    hook.answer("run", status(code, Location=f"{hook.url}?elsewhere"))
    async with receiver(hook.url) as made:
        with pytest.raises(RefusedError) as caught:
            await made.hand_over(envelope)
    assert (caught.value.code, len(hook.requests)) == (f"http_{code}", 1)


@pytest.mark.parametrize("code", [408, 429, 500, 501, 502, 503, 504, 599, 600, 999])
async def test_later_and_server_errors_are_to_be_tried_again(hook: Hook, envelope: DecisionEnvelope, code: int) -> None:
    hook.answer("run", status(code, Retry_After="17"))
    async with receiver(hook.url) as made:
        with pytest.raises(NoAnswerError) as caught:
            await made.hand_over(envelope)
    assert (caught.value.code, caught.value.retry_after) == (f"http_{code}", 17)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 2",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken header line\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x00\x00",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
)
async def test_what_is_no_http_answer_is_to_be_tried_again(envelope: DecisionEnvelope, answer: bytes) -> None:
    async with server(saying(answer)) as url, receiver(url) as made:
        with pytest.raises(NoAnswerError) as caught:
            await made.hand_over(envelope)
    assert "s3cret" not in str(caught.value)


async def test_no_answer_ends_with_the_time_out(envelope: DecisionEnvelope) -> None:
    gone = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        gone.set()

    async with server(talk) as url, receiver(url, timeout=0.3) as made:
        with pytest.raises(NoAnswerError, match=r"within 0\.3 s"):
            await made.hand_over(envelope)
        await asyncio.wait_for(gone.wait(), 60)  # nothing of the attempt goes on


async def test_an_answer_that_drips_ends_with_the_time_out(envelope: DecisionEnvelope) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" + b"x-slow: x\r\n" * 1000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)

    async with server(talk) as url, receiver(url, timeout=0.5) as made:
        with pytest.raises(NoAnswerError, match=r"within 0\.5 s"):
            await made.hand_over(envelope)


async def test_nobody_there_is_to_be_tried_again(envelope: DecisionEnvelope) -> None:
    async with server(saying(b"")) as url:
        pass
    async with receiver(url) as made:
        with pytest.raises(NoAnswerError) as caught:
            await made.hand_over(envelope)
    assert caught.value.code == "no_connection"


async def test_an_endless_body_neither_delays_nor_undoes_the_answer(envelope: DecisionEnvelope) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with server(talk) as url, receiver(url) as made:
        begun = time.monotonic()
        await made.hand_over(envelope)
        assert time.monotonic() - begun < 5


async def test_an_endpoint_that_answers_twice_has_not_answered_the_next_request(envelope: DecisionEnvelope) -> None:
    """The second answer stays on its connection: the next decision gets the answer to itself."""
    answers = [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" * 2, b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"]

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:  # as a server with keep-alive
            await read_request(reader)
            writer.write(answers.pop(0))
            await writer.drain()

    async with server(talk) as url, receiver(url) as made:
        await made.hand_over(envelope)
        with pytest.raises(NoAnswerError, match="503"):
            await made.hand_over(envelope)


async def test_a_certificate_is_verified_against_what_is_trusted(envelope: DecisionEnvelope) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    trusting, mistrusting = ssl.create_default_context(), ssl.create_default_context()
    authority.configure_trust(trusting)
    stranger.configure_trust(mistrusting)
    async with server(saying(b"HTTP/1.1 204 No Content\r\n\r\n"), tls) as url:
        async with receiver(url, ssl_context=trusting) as made:
            await made.hand_over(envelope)
        for wrong in (mistrusting, None):
            async with receiver(url, ssl_context=wrong) as made:
                with pytest.raises(NoAnswerError) as caught:
                    await made.hand_over(envelope)
                assert caught.value.code == "bad_certificate"


async def test_a_certificate_for_another_host_is_refused(envelope: DecisionEnvelope) -> None:
    authority = trustme.CA()
    tls, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("gateway.example").configure_cert(tls)
    authority.configure_trust(trusting)
    async with server(saying(b"HTTP/1.1 204 No Content\r\n\r\n"), tls) as url, receiver(url, ssl_context=trusting) as made:
        with pytest.raises(NoAnswerError) as caught:
            await made.hand_over(envelope)
    assert caught.value.code == "bad_certificate"


async def test_cookies_are_not_kept(hook: Hook, envelope: DecisionEnvelope) -> None:
    async def answer(request: web.Request) -> web.Response:
        response = web.Response()
        response.set_cookie("session", "1")
        return response

    hook.answer("run", answer)
    async with receiver(hook.url) as made:
        await made.hand_over(envelope)
        await made.hand_over(envelope)
    assert "Cookie" not in hook.headers[1]


@pytest.mark.parametrize(
    "url", ["", "gateway.example/hook", "ftp://gateway.example", "http://", "https:///x", "http://h:x/", "http://[::1"]
)
def test_a_url_that_cannot_be_posted_to_is_told_and_not_repeated(url: str) -> None:
    with pytest.raises(WebhookUrlError) as caught:
        WebhookReceiver(url, signer=None)
    assert str(caught.value) == "--url: must be http://host... or https://host..."


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pw@gateway.example/T0/B0/key?token=1#x", "https://gateway.example"),
        ("http://[::1]:8080/hook", "http://[::1]:8080"),
    ],
)
def test_logs_show_no_part_of_a_url_that_may_be_secret(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
