"""How to reach a cluster safely, and how Java clients spell it.

`parse` takes a client's properties and returns either the settings or every error at once. Nothing
that Java would use is ignored: what this connection cannot do is refused by name, with the way on.
TLS is read by `tls_settings`, SASL by `sasl_settings`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from connect_runtime.wire.codec import (
    oauth_settings,
    sasl_settings,
    setting_account,
    tls_settings,
    vendor_logins,
)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIXES = ("security.", "sasl.", "ssl.")

SettingError: TypeAlias = setting_account.SettingError
OAuth: TypeAlias = oauth_settings.OAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Everything that TLS and SASL need; texts, not paths, so that it can travel to executors.

    PEM texts: `ca_pem` trusted authorities (None: the system's), `certificate_pem` and `key_pem`
    our own, `key_password` if the key is encrypted. `oauth`: how to get tokens, with OAUTHBEARER.
    Secrets are left out of the repr.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    oauth: OAuth | None = None

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able dict; it holds the secrets."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return values | {"oauth": None if self.oauth is None else self.oauth.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Security:
        found = cls(**values)
        given = values.get("oauth")
        return found if given is None else replace(found, oauth=OAuth(**given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Either `security` or at least one error."""

    security: Security | None
    errors: tuple[SettingError, ...]


SUPPORTED = frozenset({"security.protocol"}) | sasl_settings.KEYS | tls_settings.KEYS
"""Keys that are honoured; every other key that starts with security., sasl. or ssl. is refused."""

_JVM_ONLY = "remove it: it steers Java's own TLS, this connection uses the system's OpenSSL"
_BROKERS_ONLY = "remove it: brokers judge tokens, clients do not look into them"
_REFUSED = {
    "ssl.protocol": "remove it: the newest TLS that both sides know is used, 1.2 at least",
    "ssl.enabled.protocols": "remove it: TLS 1.2 and 1.3 are used",
    "ssl.cipher.suites": _JVM_ONLY,
    "ssl.provider": _JVM_ONLY,
    "ssl.keymanager.algorithm": _JVM_ONLY,
    "ssl.trustmanager.algorithm": _JVM_ONLY,
    "ssl.secure.random.implementation": _JVM_ONLY,
    "ssl.engine.factory.class": _JVM_ONLY,
    "security.providers": _JVM_ONLY,
    "sasl.oauthbearer.client.id": "write sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "write sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope.claim.name": _BROKERS_ONLY,
    "sasl.oauthbearer.sub.claim.name": _BROKERS_ONLY,
    "sasl.oauthbearer.clock.skew.seconds": _BROKERS_ONLY,
}
_REFUSED_PREFIXES = {
    "sasl.kerberos.": vendor_logins.MECHANISMS["GSSAPI"],
    "sasl.oauthbearer.jwks.": _BROKERS_ONLY,
    "sasl.oauthbearer.expected.": _BROKERS_ONLY,
    "sasl.oauthbearer.assertion.": (
        "only the client credentials grant is supported: give the client's id and secret"
    ),
    "sasl.login.class": "no login class is needed: remove it",
}
_CALLBACK = "sasl.client.callback.handler.class"


def parse(properties: Mapping[str, str], *, files: tls_settings.Files) -> Parsed:
    """Read security.*, sasl.* and ssl.* of a client's properties; other keys are not looked at."""
    account = setting_account.Account(properties)
    _refuse_the_unsupported(account)
    protocol = account.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        allowed = setting_account.one_of(PROTOCOLS)
        account.error("security.protocol", f"{protocol} is unknown", allowed)
    _refuse_what_plaintext_would_ignore(account)
    security = Security(protocol=protocol)
    if security.uses_sasl:
        sasl = sasl_settings.read(account, files)
        security = replace(
            security,
            mechanism=sasl.mechanism,
            username=sasl.username,
            password=sasl.password,
            oauth=sasl.oauth,
        )
    tls = tls_settings.read(account, files, uses_tls=security.uses_tls)
    security = replace(
        security,
        ca_pem=tls.ca_pem,
        certificate_pem=tls.certificate_pem,
        key_pem=tls.key_pem,
        key_password=tls.key_password if tls.key_pem else None,
        check_hostname=tls.check_hostname,
    )
    return Parsed(security=None if account.errors else security, errors=tuple(account.errors))


def _refuse_the_unsupported(account: setting_account.Account) -> None:
    for key in sorted(account.properties):
        if not key.startswith(_PREFIXES) or key in SUPPORTED:
            continue
        advice = _advice(key, account.properties[key])
        if advice is not None:
            account.error(key, "it is not supported", advice)
            continue
        near = difflib.get_close_matches(key, sorted(SUPPORTED), n=1)
        known = f"known are {', '.join(sorted(SUPPORTED))}"
        account.error(key, "no such setting", f"did you mean {near[0]}?" if near else known)


def _advice(key: str, value: str) -> str | None:
    """What to do about a key that Java knows and that is not honoured; None: Java knows it not."""
    if key == _CALLBACK:
        return vendor_logins.advice(value) or "remove it: Java classes cannot be loaded here"
    found = (told for prefix, told in _REFUSED_PREFIXES.items() if key.startswith(prefix))
    return _REFUSED.get(key) or next(found, None)


def _refuse_what_plaintext_would_ignore(account: setting_account.Account) -> None:
    if account.get("security.protocol"):
        return
    for key in sorted(SUPPORTED & account.properties.keys() - {"security.protocol"}):
        problem = "it has no effect: security.protocol is not set, so connections are PLAINTEXT"
        account.error(key, problem, f"set security.protocol: {setting_account.one_of(PROTOCOLS)}")
