"""The webhook receiver: CloudEvents over HTTP, signed as Standard Webhooks ask."""

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from urllib.parse import urlsplit

import aiohttp

from schemas.cloudevents import STRUCTURED_CONTENT_TYPE
from streams.enforcement.envelope import DecisionEnvelope
from streams.enforcement.receiver import NoAnswerError, RefusedError
from streams.enforcement.retry_after import retry_after_seconds
from streams.enforcement.signing import WebhookSigner

#: Client errors that say "later", not "never": Request Timeout and Too Many Requests.
_LATER = frozenset({408, 429})

#: How much of an answer's body is read before the connection is closed; what it says is not looked at.
_MOST_BODY_BYTES = 64 * 1024
_MOST_BODY_SECONDS = 1.0


class WebhookUrlError(ValueError):
    """A URL that nothing can be posted to; the message does not repeat it, as it may hold a secret."""


def checked_url(url: str) -> str:
    """Return the URL; raises `WebhookUrlError` when it is not an absolute http or https one."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise WebhookUrlError("--url: must be http://host... or https://host...")
    return url


def without_secrets(url: str) -> str:
    """Return scheme, host and port of a URL: user, path and query may be secrets and are not for logs."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


class WebhookReceiver:
    """Posts each decision to a URL. Any 2xx status is an answer; what its body says is not looked at.

    Certificates are verified, redirects not followed. Each attempt has a connection of its own: on one that is kept open, a
    receiver that answers a request twice would seem to have answered the next request, and whether a request reached a receiver
    that was just closing the connection could not be told.
    """

    kind = "webhook"

    def __init__(
        self, url: str, *, signer: WebhookSigner | None, timeout: float = 10.0, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.attempt_timeout = timeout
        self._url = checked_url(url)
        self._signer = signer
        self._ssl: ssl.SSLContext | bool = ssl_context or True  # True: aiohttp's default, which verifies
        self._session: aiohttp.ClientSession | None = None
        self._partings: set[asyncio.Task[None]] = set()

    async def hand_over(self, envelope: DecisionEnvelope) -> None:
        """Post the decision once.

        Raises `RefusedError` for a redirect and for 4xx other than 408 and 429, `NoAnswerError` for 408, 429, 5xx, failures of
        the network or of TLS, a time-out, and for what is no HTTP answer.
        """
        headers = {"Content-Type": STRUCTURED_CONTENT_TYPE, "User-Agent": f"loopwarden/{version('loopwarden')}"}
        if self._signer is not None:
            headers |= self._signer.headers(message_id=envelope.decision.decision_id, body=envelope.body)
        else:
            headers["webhook-id"] = envelope.decision.decision_id
        response = await self._post(envelope.body, headers)
        status, wait = response.status, response.headers.get("Retry-After")
        self._part_from(response)
        if 200 <= status < 300:
            return
        code, message = f"http_{status}", f"HTTP status {status}"
        if 300 <= status < 500 and status not in _LATER:
            raise RefusedError(code, message)
        raise NoAnswerError(code, message, retry_after=retry_after_seconds(wait, now=datetime.now(tz=UTC)))

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(self.attempt_timeout):
                return await self._open_session().post(
                    self._url, data=body, headers=headers, allow_redirects=False, ssl=self._ssl
                )
        except TimeoutError:
            raise NoAnswerError("timeout", f"no answer within {self.attempt_timeout:g} s") from None
        except aiohttp.ClientConnectorCertificateError:
            raise NoAnswerError("bad_certificate", "its certificate cannot be verified") from None
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise NoAnswerError("no_connection", f"no connection, or it broke: {type(error).__name__}") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise NoAnswerError("bad_answer", f"what came back is no HTTP answer: {type(error).__name__}") from None

    def _part_from(self, response: aiohttp.ClientResponse) -> None:
        # The status is the answer and must be recorded at once. A receiver that is still sending a body is let finish, within
        # limits, so that it does not see its connection reset.
        if response.content.at_eof():
            response.close()
            return
        task = asyncio.create_task(_read_to_end(response))
        self._partings.add(task)
        task.add_done_callback(self._partings.discard)

    async def close(self) -> None:
        """Close what is open."""
        for task in self._partings:
            task.cancel()
        await asyncio.gather(*self._partings, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        # Made here and not in __init__ because it belongs to the running event loop.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True, limit=0),  # the worker bounds concurrency
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # ours covers everything
                auto_decompress=False,
            )
        return self._session


async def _read_to_end(response: aiohttp.ClientResponse) -> None:
    left = _MOST_BODY_BYTES
    try:
        async with asyncio.timeout(_MOST_BODY_SECONDS):
            while left > 0 and (chunk := await response.content.read(left)):
                left -= len(chunk)
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass  # it has answered
    finally:
        response.close()
