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

from streams.connection import Connection

#: Milliseconds for each step of the attempt: a broker that speaks another protocol often just stays silent.
_TIMEOUT_MS = 5_000


class RefusedConnectionError(ConnectionError):
    """A broker is there, but TLS or the login does not succeed; the message says which setting to look at."""


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
            (await create_conn(host, port, request_timeout_ms=_TIMEOUT_MS, **options)).close()
        except (OSError, KafkaError, TimeoutError, asyncio.CancelledError, EOFError, AssertionError, ValueError) as error:
            if isinstance(error, asyncio.CancelledError) and (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            if (fault := _fault(error, connection)) is not None:
                return RefusedConnectionError(f"{host}:{port}: {fault}")
            absent.append(f"{host}:{port}: {_network_fault(error)}")
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
        if "CERTIFICATE_REQUIRED" in str(error) or "BAD_CERTIFICATE" in str(error) or "UNKNOWN_CA" in str(error):
            return "TLS: the broker does not accept our certificate; see LOOPWARDEN_SSL_CERT_FILE and LOOPWARDEN_SSL_KEY_FILE"
        return f"TLS: {error.reason or error}"
    if isinstance(error, SaslAuthenticationFailed):
        return f"login of {connection.sasl_username} by {connection.sasl_mechanism} failed: wrong user name or password"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"the broker does not offer {connection.sasl_mechanism}; choose another LOOPWARDEN_SASL_MECHANISM"
    if isinstance(error, IllegalSaslStateError):
        return f"this listener takes no login; LOOPWARDEN_SECURITY_PROTOCOL is {protocol}, is that what this listener speaks?"
    if isinstance(error, TimeoutError | KafkaConnectionError | asyncio.CancelledError | EOFError):
        return (
            "something answers but does not talk to us as a broker;"
            f" LOOPWARDEN_SECURITY_PROTOCOL is {protocol}, is that what this listener speaks?"
        )
    if isinstance(error, ValueError | AssertionError):
        return (
            f"login of {connection.sasl_username} by {connection.sasl_mechanism} failed: the broker's answer is not to be trusted"
        )
    return None


def _certificate_remedy(error: ssl.SSLCertVerificationError) -> str:
    remedies = {
        10: "it has to be renewed",  # X509_V_ERR_CERT_HAS_EXPIRED
        62: "connect by a name that is in it",  # X509_V_ERR_HOSTNAME_MISMATCH
        64: "connect by an address that is in it",  # X509_V_ERR_IP_ADDRESS_MISMATCH
    }
    return remedies.get(error.verify_code, "LOOPWARDEN_SSL_CA_FILE must name the authority that issued it")


def _network_fault(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is not known"
    if isinstance(error, OSError):
        # asyncio joins the errors of several addresses of one name into one text, without a number
        number = error.errno if error.errno is not None else errno.ECONNREFUSED if "Errno 111" in str(error) else None
        return str(error) if number is None else os.strerror(number).lower()
    return str(error) or type(error).__name__
