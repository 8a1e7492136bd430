"""Reads a client's `security.*`, `sasl.*` and `ssl.*` properties into `SecuritySettings`.

`parse_security_settings` returns either the settings or the complete list of errors. Keys that Java
would use are never ignored: an unsupported key is reported with the alternative. `tls_settings`
reads TLS keys, `oauthbearer` reads OAUTHBEARER keys.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from connect_runtime.protocol import client_property_reader, jaas, oauthbearer, sasl, tls_settings
from connect_runtime.protocol.client_property_reader import PropertyReader
from connect_runtime.protocol.jaas import JaasConfigError, LoginModule
from connect_runtime.protocol.tls_settings import KeyStoreFileReader

SASL_KEYS = frozenset({"sasl.mechanism", "sasl.jaas.config", *oauthbearer.OAUTH_KEYS})

_JAAS_KEY = "sasl.jaas.config"
_SECURITY_PACKAGE = "org.apache.kafka.common.security."
_LOGIN_MODULES = {sasl.PLAIN: ("plain", "PlainLoginModule")}
_LOGIN_MODULES |= dict.fromkeys(sasl.SCRAM_MECHANISMS, ("scram", "ScramLoginModule"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """SASL mechanism and credentials of a client."""

    mechanism: str
    username: str | None = None
    """Username; with OAUTHBEARER, the client id, which is used only in error messages."""
    password: str | None = field(default=None, repr=False)
    oauth: oauthbearer.OAuthSettings | None = None
    """OAuth settings; None unless the mechanism is OAUTHBEARER."""


def read_sasl_settings(reader: PropertyReader, files: KeyStoreFileReader) -> SaslSettings:
    """Read the sasl.* properties of a client that authenticates with SASL. Errors are collected in
    `reader`."""
    mechanism = reader.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in sasl.SASL_MECHANISMS:
        missing = "" if "sasl.mechanism" in reader.properties else " (Java's default)"
        advice = jaas.VENDOR_MECHANISM_ADVICE.get(mechanism)
        allowed = client_property_reader.format_choices(sasl.SASL_MECHANISMS)
        allowed = f"{advice}; {allowed}" if advice else allowed
        reader.add_error("sasl.mechanism", f"{mechanism}{missing} is not supported", allowed)
        return SaslSettings(mechanism=mechanism)
    if mechanism == sasl.OAUTHBEARER:
        oauth = oauthbearer.read_oauth_settings(reader, _read_oauth_options(reader), files)
        return SaslSettings(mechanism=mechanism, username=oauth.client_id, oauth=oauth)
    for key in sorted(oauthbearer.OAUTH_KEYS & reader.properties.keys()):
        advice = f"remove it, or set sasl.mechanism={sasl.OAUTHBEARER}"
        reader.add_error(key, f"this setting has no effect with {mechanism}", advice)
    username, password = _read_credentials(reader, mechanism)
    return SaslSettings(mechanism=mechanism, username=username, password=password)


def _read_oauth_options(reader: PropertyReader) -> Mapping[str, str]:
    """Return the options of the login module in `sasl.jaas.config`. It may be missing if other
    properties contain the credentials."""
    if not reader.get(_JAAS_KEY):
        return {}
    module = _read_login_module(
        reader, oauthbearer.OAUTH_LOGIN_MODULE, form=oauthbearer.JAAS_FORM_ADVICE
    )
    return {} if module is None else module.options


def _read_credentials(reader: PropertyReader, mechanism: str) -> tuple[str | None, str | None]:
    package, expected = _LOGIN_MODULES[mechanism]
    form = f'write {_SECURITY_PACKAGE}{package}.{expected} required username="…" password="…";'
    if not reader.get(_JAAS_KEY):
        reader.add_error(_JAAS_KEY, "it is missing", form)
        return None, None
    module = _read_login_module(reader, expected, form=form)
    if module is None:
        return None, None
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        reader.add_error(_JAAS_KEY, f"{' and '.join(missing)} missing", form)
    for name in sorted(module.options.keys() - {"username", "password"}):
        reader.add_error(_JAAS_KEY, f"option {name} is not supported", form)
    return module.options.get("username"), module.options.get("password")


def _read_login_module(reader: PropertyReader, expected: str, *, form: str) -> LoginModule | None:
    try:
        module = jaas.parse_jaas_config(reader.get(_JAAS_KEY))
    except JaasConfigError as error:
        reader.add_error(_JAAS_KEY, str(error), form)
        return None
    if module.simple_name == expected:
        return module
    advice = jaas.suggest_vendor_class_replacement(module.class_name)
    problem = f"{module.simple_name} does not belong to this sasl.mechanism"
    reader.add_error(_JAAS_KEY, problem, f"{advice}; or {form}" if advice else form)
    return None


SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIXES = ("security.", "sasl.", "ssl.")

SettingError: TypeAlias = client_property_reader.InvalidSettingError
OAuthSettings: TypeAlias = oauthbearer.OAuthSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """All TLS and SASL settings of a client.

    Certificates and keys are PEM strings instead of paths, so that the settings can be sent to
    other processes. The repr contains no secrets.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    """PEM text of the trusted certificate authorities; None for the system's authorities."""
    certificate_pem: str | None = field(default=None, repr=False)
    """PEM text of the client's certificate chain."""
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    """Password of the private key; None if the key is not encrypted."""
    check_hostname: bool = True
    oauth: OAuthSettings | None = None
    """Settings for requesting OAuth tokens; None unless the mechanism is OAUTHBEARER."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON-serializable dict, with the secrets in plain text."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return values | {"oauth": None if self.oauth is None else self.oauth.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SecuritySettings:
        """Create settings from a dict that `to_dict` returned."""
        found = cls(**values)
        given = values.get("oauth")
        return found if given is None else replace(found, oauth=OAuthSettings(**given))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityParseResult:
    """Result of `parse_security_settings`: either settings (`security`), or None and at least one
    error."""

    security: SecuritySettings | None
    errors: tuple[SettingError, ...]


SUPPORTED_KEYS = frozenset({"security.protocol"}) | SASL_KEYS | tls_settings.TLS_KEYS
"""Supported keys. All other keys that start with security., sasl. or ssl. are rejected."""

_JVM_ONLY_ADVICE = (
    "remove this setting: it configures Java's TLS, but this client uses the system's OpenSSL"
)
_BROKERS_ONLY_ADVICE = "remove this setting: brokers validate tokens, clients do not"
_REFUSED_KEYS = {
    "ssl.protocol": (
        "remove this setting: the newest TLS version that both sides support is used, at least 1.2"
    ),
    "ssl.enabled.protocols": "remove this setting: TLS 1.2 and 1.3 are used",
    "ssl.cipher.suites": _JVM_ONLY_ADVICE,
    "ssl.provider": _JVM_ONLY_ADVICE,
    "ssl.keymanager.algorithm": _JVM_ONLY_ADVICE,
    "ssl.trustmanager.algorithm": _JVM_ONLY_ADVICE,
    "ssl.secure.random.implementation": _JVM_ONLY_ADVICE,
    "ssl.engine.factory.class": _JVM_ONLY_ADVICE,
    "security.providers": _JVM_ONLY_ADVICE,
    "sasl.oauthbearer.client.id": "write sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "write sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope.claim.name": _BROKERS_ONLY_ADVICE,
    "sasl.oauthbearer.sub.claim.name": _BROKERS_ONLY_ADVICE,
    "sasl.oauthbearer.clock.skew.seconds": _BROKERS_ONLY_ADVICE,
}
_REFUSED_PREFIXES = {
    "sasl.kerberos.": jaas.VENDOR_MECHANISM_ADVICE["GSSAPI"],
    "sasl.oauthbearer.jwks.": _BROKERS_ONLY_ADVICE,
    "sasl.oauthbearer.expected.": _BROKERS_ONLY_ADVICE,
    "sasl.oauthbearer.assertion.": (
        "only the client credentials grant is supported: set the client's id and secret"
    ),
    "sasl.login.class": "remove this setting: no login class is needed",
}
_CALLBACK_KEY = "sasl.client.callback.handler.class"


def parse_security_settings(
    properties: Mapping[str, str], *, files: KeyStoreFileReader
) -> SecurityParseResult:
    """Parse the security.*, sasl.* and ssl.* properties of a client. Other keys are ignored."""
    reader = PropertyReader(properties)
    _reject_unsupported_keys(reader)
    protocol = reader.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        allowed = client_property_reader.format_choices(SECURITY_PROTOCOLS)
        reader.add_error("security.protocol", f"{protocol} is unknown", allowed)
    _reject_keys_unused_with_plaintext(reader)
    security = SecuritySettings(protocol=protocol)
    if security.uses_sasl:
        sasl = read_sasl_settings(reader, files)
        security = replace(
            security,
            mechanism=sasl.mechanism,
            username=sasl.username,
            password=sasl.password,
            oauth=sasl.oauth,
        )
    tls = tls_settings.read_tls_settings(reader, files, uses_tls=security.uses_tls)
    security = replace(
        security,
        ca_pem=tls.ca_pem,
        certificate_pem=tls.certificate_pem,
        key_pem=tls.key_pem,
        key_password=tls.key_password if tls.key_pem else None,
        check_hostname=tls.check_hostname,
    )
    return SecurityParseResult(
        security=None if reader.errors else security, errors=tuple(reader.errors)
    )


def _reject_unsupported_keys(reader: PropertyReader) -> None:
    for key in sorted(reader.properties):
        if not key.startswith(_PREFIXES) or key in SUPPORTED_KEYS:
            continue
        advice = _get_unsupported_key_advice(key, reader.properties[key])
        if advice is not None:
            reader.add_error(key, "it is not supported", advice)
            continue
        near = difflib.get_close_matches(key, sorted(SUPPORTED_KEYS), n=1)
        known = f"known are {', '.join(sorted(SUPPORTED_KEYS))}"
        reader.add_error(key, "no such setting", f"did you mean {near[0]}?" if near else known)


def _get_unsupported_key_advice(key: str, value: str) -> str | None:
    """Return the remedy for a key that only Java clients support; None if Java clients do not
    support the key either."""
    if key == _CALLBACK_KEY:
        return jaas.suggest_vendor_class_replacement(value) or (
            "remove this setting: this client cannot load Java classes"
        )
    found = (advice for prefix, advice in _REFUSED_PREFIXES.items() if key.startswith(prefix))
    return _REFUSED_KEYS.get(key) or next(found, None)


def _reject_keys_unused_with_plaintext(reader: PropertyReader) -> None:
    if reader.get("security.protocol"):
        return
    for key in sorted(SUPPORTED_KEYS & reader.properties.keys() - {"security.protocol"}):
        problem = (
            "this setting has no effect: security.protocol is not set, so connections are PLAINTEXT"
        )
        reader.add_error(
            key,
            problem,
            f"set security.protocol: {client_property_reader.format_choices(SECURITY_PROTOCOLS)}",
        )
