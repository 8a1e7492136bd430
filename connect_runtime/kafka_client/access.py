"""How to reach a cluster: one thing for every client of it, made from properties as Java spells
them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import errors
from connect_runtime.kafka_client import client_settings
from connect_runtime.wire.codec import cluster_view, security_settings, tls_settings
from connect_runtime.wire.connection import client_properties
from connect_runtime.wire.connection import settings as connection_settings

_BOOTSTRAP = "bootstrap.servers"
_REQUEST_TIMEOUT = "request.timeout.ms"
_IMPATIENT_MS = 10_000
_KEPT = frozenset({*client_settings.SHARED, *client_settings.NAMED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach one cluster. `bootstrap`: host:port each.

    `name` is for messages and log lines: what its users call the cluster, "" where there is but
    one. `properties` are client settings as Java spells them; `security` goes before what they say
    of it.
    """

    name: str = ""
    bootstrap: tuple[str, ...]
    security: security_settings.Security = field(default_factory=security_settings.Security)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """For messages: who, and at which addresses."""
        addresses = ",".join(self.bootstrap)
        return f"{self.name} ({addresses})" if self.name else addresses

    @property
    def settings(self) -> dict[str, object]:
        """In librdkafka's words, secrets included. Raises `FatalError` for what is no number."""
        security = client_settings.security(self.security)
        return client_settings.shared(self.properties) | security

    def connection(self, client_id: str) -> connection_settings.ConnectionSettings:
        """For connections of our own; `client_id` as brokers see it."""
        return client_properties.settings(
            self.properties,
            bootstrap=self.bootstrap,
            security=self.security,
            client_id=client_id,
        )

    @property
    def secret(self) -> str | None:
        """What the library may repeat of what an issuer of tokens said, and nobody may see."""
        return None if self.security.oauth is None else self.security.oauth.client_secret


def parse(properties: Mapping[str, str], *, files: tls_settings.Files, name: str = "") -> Access:
    """How to reach the cluster that a worker's (or client's) properties tell of.

    `files` reads certificates. Raises `FatalError` that names every setting that cannot be
    honoured.
    """
    parsed = security_settings.parse(properties, files=files)
    if parsed.security is None:
        told = "; ".join(str(each) for each in parsed.errors)
        raise errors.FatalError(f"reading client settings: {told}")
    client_settings.shared(properties)
    return Access(
        name=name,
        bootstrap=_bootstrap(properties),
        security=parsed.security,
        properties={key: value for key, value in properties.items() if key in _KEPT},
    )


def impatient(access: Access) -> Access:
    """Gives up silent brokers after 10 s where nothing else is set: a log is read and written
    within 30 s, from new leaders too."""
    properties = {_REQUEST_TIMEOUT: str(_IMPATIENT_MS), **access.properties}
    return dataclasses.replace(access, properties=properties)


def _bootstrap(properties: Mapping[str, str]) -> tuple[str, ...]:
    """As host:port, checked; a protocol in front says nothing, as in Java."""
    given = (each.strip() for each in properties.get(_BOOTSTRAP, "").split(","))
    found = tuple(each.rpartition("://")[2] for each in given if each)
    if not found:
        raise errors.FatalError(
            f"reading client settings: {_BOOTSTRAP} is missing; name one broker at least, as"
            " host:port"
        )
    for each in found:
        try:
            cluster_view.parse_address(each)
        except ValueError as error:
            raise errors.FatalError(f"reading client settings: {_BOOTSTRAP}: {error}") from None
    return found
