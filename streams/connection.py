"""How a process reaches the brokers: addresses, TLS and SASL, for aiokafka's clients and for Faust."""

import logging
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer

from schemas.settings import SaslMechanism, SecurityProtocol, Settings


class _WithoutPasswords(logging.Filter):
    """Keeps the client's debug log from quoting the requests that carry a password."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything through, with the requests of a login left out."""
        if isinstance(record.args, tuple) and any(type(value).__name__.startswith("SaslAuthenticate") for value in record.args):
            record.args = tuple(
                "(login)" if type(value).__name__.startswith("SaslAuthenticate") else value for value in record.args
            )
        return True


logging.getLogger("aiokafka.conn").addFilter(_WithoutPasswords())


class ConnectionSettingsError(OSError):
    """A file that the TLS settings name cannot be used; the message names the setting and the file."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The brokers and how to speak to them.

    `bootstrap_servers` is the usual `host:port,host:port`. The files are PEM. Secrets do not appear in the representation.
    `ssl_context`, and so whatever makes a client, raises `ConnectionSettingsError` when a certificate cannot be used.
    """

    bootstrap_servers: str
    security_protocol: SecurityProtocol = "PLAINTEXT"
    ssl_ca_file: Path | None = None
    ssl_cert_file: Path | None = None
    ssl_key_file: Path | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    sasl_mechanism: SaslMechanism = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Take over what the settings say; passwords are read from their files here."""
        return cls(
            bootstrap_servers=settings.bootstrap_servers,
            security_protocol=settings.security_protocol,
            ssl_ca_file=settings.ssl_ca_file,
            ssl_cert_file=settings.ssl_cert_file,
            ssl_key_file=settings.ssl_key_file,
            ssl_key_password=settings.read_secret("ssl_key_password"),
            sasl_mechanism=settings.sasl_mechanism,
            sasl_username=settings.sasl_username,
            sasl_password=settings.read_secret("sasl_password"),
        )

    @cached_property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context: certificates and host names of brokers are checked; None without TLS."""
        if not self.security_protocol.endswith("SSL"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise ConnectionSettingsError(f"LOOPWARDEN_SSL_CA_FILE: {self.ssl_ca_file}: {_file_fault(error)}") from None
        if self.ssl_cert_file is not None:
            try:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.ssl_cert_file, self.ssl_key_file, password=self.ssl_key_password or "")
            except OSError as error:
                files = [f"LOOPWARDEN_SSL_CERT_FILE: {self.ssl_cert_file}"]
                if self.ssl_key_file is not None:
                    files.append(f"LOOPWARDEN_SSL_KEY_FILE: {self.ssl_key_file}")
                raise ConnectionSettingsError(f"{', '.join(files)}: {_file_fault(error)}") from None
        return context

    @property
    def user(self) -> str:
        """Who the broker takes us for, in the words of an error message."""
        if self._uses_sasl:
            return f"user {self.sasl_username}"
        return "this client" if self.ssl_cert_file is None else f"the client with the certificate {self.ssl_cert_file}"

    @property
    def _uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    def client_options(self) -> dict[str, Any]:
        """Return keyword arguments for aiokafka's consumer, producer and admin client."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
            "ssl_context": self.ssl_context,
        }
        if self._uses_sasl:
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.sasl_password,
            }
        return options

    def reader(self, *, fetch_max_wait_ms: int, group: str | None = None) -> AIOKafkaConsumer:
        """Return a consumer, not started, whose partitions are assigned by hand; `group` is only to commit under.

        It begins where a partition begins, unless it is told otherwise. `fetch_max_wait_ms` is how long a fetch may wait at the
        broker: one that waits on idle partitions holds up the busy ones.
        """
        return AIOKafkaConsumer(
            **self.client_options(),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=fetch_max_wait_ms,
        )

    def faust_credentials(self) -> Any:
        """Return Faust's `broker_credentials`; None for plain text."""
        import faust  # half a second, which only workers need

        if self._uses_sasl:
            return faust.SASLCredentials(
                username=self.sasl_username,
                password=self.sasl_password,
                ssl_context=self.ssl_context,
                mechanism=self.sasl_mechanism,
            )
        return None if self.ssl_context is None else faust.SSLCredentials(self.ssl_context)


def _file_fault(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return (error.strerror or str(error)).lower()
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    if error.reason in (None, "BAD_DECRYPT", "BAD_PASSWORD_READ"):
        # Of a file without PEM blocks OpenSSL 3 gives no reason but "PEM lib", as of a key that the password does not open.
        return "no PEM file, or LOOPWARDEN_SSL_KEY_PASSWORD does not open the key"
    if error.reason in ("NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE"):
        return "there is no PEM certificate in it"
    return error.reason.replace("_", " ").lower()
