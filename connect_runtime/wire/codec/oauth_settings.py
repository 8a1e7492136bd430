"""OAUTHBEARER with OIDC client credentials (KIP-768, KIP-1139), as Java clients spell it.

The client's id, its secret and the scope stand in properties of their own (4.1), or as options in
`sasl.jaas.config`. As in Java, the token endpoint's authorities are options there as well
(`ssl.truststore.…`), not the brokers'.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from connect_runtime.wire.codec import setting_account, tls_settings, vendor_logins

LOGIN_MODULE = "OAuthBearerLoginModule"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_HANDLER = "sasl.login.callback.handler.class"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_VALIDATOR = "sasl.oauthbearer.jwt.validator.class"
_ID = "sasl.oauthbearer.client.credentials.client.id"
_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - its name
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
FORM = (
    f'write {_PACKAGE}{LOGIN_MODULE} required clientId="…" clientSecret="…" scope="…"; '
    "(scope only if the issuer wants one)"
)

KEYS = frozenset({
    ENDPOINT,
    _ID,
    _SECRET,
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.header.urlencode",
    _RETRIEVER,
    _VALIDATOR,
    _HANDLER,
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.buffer.seconds",
})  # fmt: skip

# Java's own classes, whose work is done here: key, then what may stand there.
_CLASSES = {
    _HANDLER: (
        f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
        f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
    ),
    _RETRIEVER: (f"{_PACKAGE}DefaultJwtRetriever", f"{_PACKAGE}ClientCredentialsJwtRetriever"),
    _VALIDATOR: (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}ClientJwtValidator"),
}
_EXTENSION = "extension_"
_TRUST = "ssl.truststore."
_INT_MAX = 2_147_483_647


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """How to get tokens: seconds everywhere, `refresh_factor` a share of a token's life.

    `ca_pem`: authorities of the token endpoint, None for the system's. `scope` "": none is asked.
    """

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    urlencode: bool = False
    extensions: Mapping[str, str] = field(default_factory=dict)
    ca_pem: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    retry_s: float = 0.1
    retry_max_s: float = 10.0
    refresh_factor: float = 0.8
    refresh_jitter: float = 0.05
    refresh_min_period_s: float = 60.0
    refresh_buffer_s: float = 300.0

    @property
    def in_clear(self) -> bool:
        """Does the secret go over a network unencrypted on its way to the issuer?"""
        parts = urllib.parse.urlsplit(self.endpoint)
        host = parts.hostname or ""
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = host == "localhost" or host.endswith(".localhost")
        return parts.scheme == "http" and not loopback

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able dict; it holds the secret."""
        return asdict(self)


def read(
    account: setting_account.Account, options: Mapping[str, str], files: tls_settings.Files
) -> OAuth:
    """`options` are those of the login module; mistakes are noted, what is missing stays empty."""
    _check_classes(account)
    _check_options(account, options)
    endpoint = _endpoint(account)
    client_id = _credential(account, _ID, option=("clientId", options))
    secret = _credential(account, _SECRET, option=("clientSecret", options))
    retry_ms = account.whole("sasl.login.retry.backoff.ms", 100, least=0, most=_INT_MAX)
    retry_max_ms = account.whole("sasl.login.retry.backoff.max.ms", 10_000, least=0, most=_INT_MAX)
    return OAuth(
        endpoint=endpoint,
        client_id=client_id,
        client_secret=secret,
        scope=account.get("sasl.oauthbearer.scope") or options.get("scope", ""),
        urlencode=account.boolean("sasl.oauthbearer.header.urlencode"),
        extensions={
            name.removeprefix(_EXTENSION): value
            for name, value in options.items()
            if name.startswith(_EXTENSION)
        },
        ca_pem=_authorities(account, options, files),
        connect_timeout_s=_timeout_s(account, "sasl.login.connect.timeout.ms"),
        read_timeout_s=_timeout_s(account, "sasl.login.read.timeout.ms"),
        retry_s=max(retry_ms, 1) / 1000,
        retry_max_s=max(retry_max_ms, retry_ms, 1) / 1000,
        refresh_factor=account.fraction(
            "sasl.login.refresh.window.factor", 0.8, least=0.5, most=1.0
        ),
        refresh_jitter=account.fraction(
            "sasl.login.refresh.window.jitter", 0.05, least=0.0, most=0.25
        ),
        refresh_min_period_s=account.whole(
            "sasl.login.refresh.min.period.seconds", 60, least=0, most=900
        ),
        refresh_buffer_s=account.whole(
            "sasl.login.refresh.buffer.seconds", 300, least=0, most=3600
        ),
    )


def _timeout_s(account: setting_account.Account, key: str) -> float:
    return account.whole(key, 10_000, least=1, most=_INT_MAX) / 1000


def _check_classes(account: setting_account.Account) -> None:
    for key, ours in _CLASSES.items():
        name = account.get(key)
        if not name or name in ours:
            continue
        told = vendor_logins.advice(name) or "remove it: Java classes cannot be loaded here"
        account.error(key, f"{name} is not supported", f"{told}; {setting_account.one_of(ours)}")


def _check_options(account: setting_account.Account, options: Mapping[str, str]) -> None:
    unknown = sorted(
        name
        for name in options
        if name not in {"clientId", "clientSecret", "scope"}
        and not name.startswith((_EXTENSION, _TRUST))
    )
    for name in unknown[:1]:  # one error per key
        account.error("sasl.jaas.config", f"its option {name} is not supported", FORM)
    for name, value in options.items():
        if name.startswith(_EXTENSION) and not _is_extension(name.removeprefix(_EXTENSION), value):
            allowed = "letters in its name, printable ASCII in its value, and not extension_auth"
            account.error("sasl.jaas.config", f"its option {name} is malformed", allowed)


def _is_extension(name: str, value: str) -> bool:
    """RFC 7628, 3.1, as Java's OAuthBearerClientInitialResponse checks it."""
    return (
        name.isascii()
        and name.isalpha()
        and name != "auth"
        and all(" " <= char <= "~" or char in "\t\r\n" for char in value)
    )


def _endpoint(account: setting_account.Account) -> str:
    allowed = "the issuer's token endpoint, https://host/path"
    text = account.get(ENDPOINT)
    if not text:
        account.error(ENDPOINT, "it is missing", allowed)
        return ""
    try:
        parts = urllib.parse.urlsplit(text)
        right = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 1)
    except ValueError:
        right = None
    if not right:
        account.error(ENDPOINT, "it is no http or https address", allowed)
    elif parts.username or parts.password:
        account.error(ENDPOINT, "it holds credentials", "give them as clientId and clientSecret")
    return text


def _credential(
    account: setting_account.Account,
    name: str,
    *,
    option: tuple[str, Mapping[str, str]],
) -> str:
    """The property wins over the option, as in Java's ConfigOrJaas."""
    found = account.get(name) or option[1].get(option[0], "")
    if not found:
        where = f"it, and {option[0]} in sasl.jaas.config, are missing"
        account.error(name, where, f"set it, or {FORM}")
    return found


def _authorities(
    account: setting_account.Account, options: Mapping[str, str], files: tls_settings.Files
) -> str | None:
    trust = {name: value for name, value in options.items() if name.startswith(_TRUST)}
    inner = setting_account.Account(trust)
    for name in sorted(trust.keys() - tls_settings.KEYS)[:1]:
        account.error("sasl.jaas.config", f"its option {name} is not supported", FORM)
    found = tls_settings.read(inner, files, uses_tls=True)
    for error in inner.errors[:1]:
        problem = f"its option {error.key}: {error.problem}"
        account.error("sasl.jaas.config", problem, error.allowed)
    return found.ca_pem
