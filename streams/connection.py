"""How a process reaches the brokers: addresses, TLS and SASL, for aiokafka's clients and for Faust."""

import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import faust

from schemas.settings import SaslMechanism, SecurityProtocol, Settings


class ConnectionSettingsError(ValueError):
    """TLS or SASL settings contradict each other, or name a file that cannot be used; the message names the setting."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The brokers and how to speak to them.

    `bootstrap_servers` is the usual `host:port,host:port`. The files are PEM. Secrets do not appear in the representation.
    Anything that makes a client raises `ConnectionSettingsError` when a certificate cannot be read.
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
            if self.ssl_cert_file is not None:
                context.load_cert_chain(self.ssl_cert_file, self.ssl_key_file, password=self.ssl_key_password or "")
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(str(path) for path in (self.ssl_ca_file, self.ssl_cert_file, self.ssl_key_file) if path is not None)
            raise ConnectionSettingsError(f"TLS files ({files}): {error.strerror or error}") from None
        return context

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

    def faust_credentials(self) -> Any:
        """Return Faust's `broker_credentials`; None for plain text."""
        if self._uses_sasl:
            return faust.SASLCredentials(
                username=self.sasl_username,
                password=self.sasl_password,
                ssl_context=self.ssl_context,
                mechanism=self.sasl_mechanism,
            )
        return None if self.ssl_context is None else faust.SSLCredentials(self.ssl_context)
