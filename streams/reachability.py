"""Why no broker can be reached: one clear line instead of the client's general one."""

import asyncio
import errno
import os
import socket
import ssl

from aiokafka.client import collect_hosts
from aiokafka.conn import create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from streams.connection import Connection

#: Milliseconds for each step of the attempt: a broker that speaks another protocol often just stays silent.
_TIMEOUT_MS = 5_000


class RefusedConnectionError(ConnectionError):
    """A broker is there, but TLS or the login does not succeed; the message says which setting to look at."""


#: What comes of a connection that was there and then was not.
_BROKEN_OFF = (
    KafkaConnectionError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    asyncio.CancelledError,
    EOFError,
)


async def why_unreachable(connection: Connection) -> Exception:
    """Try each address once more and return the error that tells most, to be raised by the caller.

    `RefusedConnectionError` when a broker answered but TLS or SASL failed, else `aiokafka.errors.KafkaConnectionError` with what
    the network said about each address.
    """
    absent: list[str] = []
    for host, port, _ in collect_hosts(connection.bootstrap_servers):
        options = connection.client_options()
        del options["bootstrap_servers"]
        try:
            broker = await create_conn(host, port, request_timeout_ms=_TIMEOUT_MS, **options)
            try:
                await broker.send(MetadataRequest([]))  # a listener that wants a login answers nothing else without one
            finally:
                broker.close()
        except (OSError, KafkaError, TimeoutError, asyncio.CancelledError, EOFError, AssertionError, ValueError) as error:
            if isinstance(error, asyncio.CancelledError) and (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            if isinstance(error, _BROKEN_OFF) and connection.ssl_context is not None:
                error = await _alert(host, port, connection.ssl_context) or error
            if (fault := _fault(error, connection)) is not None:
                return RefusedConnectionError(f"{host}:{port}: {fault}")
            absent.append(f"{host}:{port}: {_network_fault(error, connection.security_protocol)}")
        else:
            absent.append(f"{host}:{port}: answers now, but did not a moment ago")
    unreachable: Exception = KafkaConnectionError("; ".join(absent) or "no address is given")
    return unreachable


def _fault(error: BaseException, connection: Connection) -> str | None:
    """Return what a broker that is there has against us; None when none may be there."""
    protocol = connection.security_protocol
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the broker's certificate is not accepted: {error.verify_message}; {_certificate_remedy(error)}"
    if isinstance(error, ssl.SSLError):
        if "WRONG_VERSION_NUMBER" in str(error) or "UNEXPECTED_EOF" in str(error):
            return f"TLS: no TLS is spoken here; LOOPWARDEN_SECURITY_PROTOCOL is {protocol}, is that what this listener speaks?"
        if "ALERT" in str(error) and ("CERTIFICATE" in str(error) or "UNKNOWN_CA" in str(error)):
            own = "none is given" if connection.ssl_cert_file is None else str(connection.ssl_cert_file)
            return f"TLS: the broker does not accept our certificate ({_reason(error)}); see LOOPWARDEN_SSL_CERT_FILE: {own}"
        return f"TLS: {_reason(error)}"
    if isinstance(error, SaslAuthenticationFailed):
        return f"login of {connection.user} by {connection.sasl_mechanism} failed: wrong user name or password"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"the broker does not offer {connection.sasl_mechanism}; choose another LOOPWARDEN_SASL_MECHANISM"
    if isinstance(error, IllegalSaslStateError):
        return f"this listener takes no login; LOOPWARDEN_SECURITY_PROTOCOL is {protocol}, is that what this listener speaks?"
    if isinstance(error, _BROKEN_OFF):
        return (
            "something answers but does not talk to us as a broker;"
            f" LOOPWARDEN_SECURITY_PROTOCOL is {protocol}, is that what this listener speaks?"
        )
    if isinstance(error, ValueError | AssertionError):
        return f"login of {connection.user} by {connection.sasl_mechanism} failed: the broker's answer is not to be trusted"
    return None


async def _alert(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLError | None:
    """Return what a broker says against our certificate; with TLS 1.3 it says so after the handshake, which the client misses."""
    try:
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                await reader.read(1)
            finally:
                writer.close()
    except ssl.SSLError as error:
        return error
    except (OSError, EOFError):  # a time-out is one
        return None
    return None


def _reason(error: ssl.SSLError) -> str:
    return (
        (error.reason or str(error))
        .removeprefix("TLSV13_")
        .removeprefix("SSLV3_")
        .removeprefix("TLSV1_")
        .replace("_", " ")
        .lower()
    )


def _certificate_remedy(error: ssl.SSLCertVerificationError) -> str:
    remedies = {
        10: "it has to be renewed",  # X509_V_ERR_CERT_HAS_EXPIRED
        62: "connect by a name that is in it",  # X509_V_ERR_HOSTNAME_MISMATCH
        64: "connect by an address that is in it",  # X509_V_ERR_IP_ADDRESS_MISMATCH
    }
    return remedies.get(error.verify_code, "LOOPWARDEN_SSL_CA_FILE must name the authority that issued it")


def _network_fault(error: BaseException, protocol: str) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is not known"
    if isinstance(error, TimeoutError):
        return f"no answer within {_TIMEOUT_MS // 1000} s (LOOPWARDEN_SECURITY_PROTOCOL is {protocol}, is that spoken there?)"
    if isinstance(error, OSError):
        # asyncio joins the errors of several addresses of one name into one text, without a number
        number = error.errno if error.errno is not None else errno.ECONNREFUSED if "Errno 111" in str(error) else None
        return str(error) if number is None else os.strerror(number).lower()
    return str(error) or type(error).__name__
