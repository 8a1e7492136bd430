"""How to reach a cluster safely, and how Java clients spell it.

`parse` takes a client's properties and returns either the settings or every error at once. Nothing
that Java would use is ignored: what this connection cannot do is refused by name, with the way on.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from connect_runtime.wire.codec import jaas, sasl

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIXES = ("security.", "sasl.", "ssl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Everything that TLS and SASL need; texts, not paths, so that it can travel to executors.

    PEM texts: `ca_pem` trusted authorities (None: the system's), `certificate_pem` and `key_pem`
    our own, `key_password` if the key is encrypted. Secrets are left out of the repr.
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

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able dict; it holds the secrets."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Security:
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingError:
    """One thing that is wrong: the key, what is wrong with it, and what is allowed or to do."""

    key: str
    problem: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}; {self.allowed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Either `security` or at least one error."""

    security: Security | None
    errors: tuple[SettingError, ...]


SUPPORTED = frozenset({
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
})  # fmt: skip
"""Keys that are honoured; every other key that starts with security., sasl. or ssl. is refused."""

_JVM_ONLY = "remove it: it steers Java's own TLS, this connection uses the system's OpenSSL"
_NO_STORE_PASSWORD = "remove it: PEM stores have no password (an encrypted key: ssl.key.password)"  # noqa: S105
_REFUSED = {
    "ssl.truststore.password": _NO_STORE_PASSWORD,
    "ssl.keystore.password": _NO_STORE_PASSWORD,
    "ssl.protocol": "remove it: the newest TLS that both sides know is used, 1.2 at least",
    "ssl.enabled.protocols": "remove it: TLS 1.2 and 1.3 are used",
    "ssl.cipher.suites": _JVM_ONLY,
    "ssl.provider": _JVM_ONLY,
    "ssl.keymanager.algorithm": _JVM_ONLY,
    "ssl.trustmanager.algorithm": _JVM_ONLY,
    "ssl.secure.random.implementation": _JVM_ONLY,
    "ssl.engine.factory.class": _JVM_ONLY,
    "security.providers": _JVM_ONLY,
    "sasl.client.callback.handler.class": "remove it: Java classes cannot be loaded here",
}
_REFUSED_PREFIXES = {
    "sasl.kerberos.": "Kerberos (GSSAPI) is not supported: use SCRAM, PLAIN or TLS certificates",
    "sasl.oauthbearer.": "OAUTHBEARER is not supported: use SCRAM, PLAIN or TLS certificates",
    "sasl.login.": "only PLAIN and SCRAM are supported, which need no login class: remove it",
}
_STORE_ADVICE = {
    "truststore": (
        "use PEM: keytool -exportcert -rfc -alias <ca> -keystore <store> -file ca.pem, "
        "then ssl.truststore.type=PEM and ssl.truststore.location=ca.pem"
    ),
    "keystore": (
        "use PEM: keytool -importkeystore -srckeystore <store> -destkeystore k.p12 "
        "-deststoretype PKCS12, then openssl pkcs12 -in k.p12 -nodes -out client.pem, then "
        "ssl.keystore.type=PEM and ssl.keystore.location=client.pem"
    ),
}
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_KEY_MARK = "PRIVATE KEY-----"


def parse(properties: Mapping[str, str], *, read_text: Callable[[str], str]) -> Parsed:
    """Read security.*, sasl.* and ssl.* of a client's properties; other keys are not looked at.

    `read_text(path)` returns a PEM file's content and may raise OSError or UnicodeError.
    """
    reader = _Reader(properties, read_text)
    security = reader.read()
    errors = tuple(reader.errors)
    return Parsed(security=None if errors else security, errors=errors)


class _Reader:
    def __init__(self, properties: Mapping[str, str], read_text: Callable[[str], str]) -> None:
        self.errors: list[SettingError] = []
        self._properties = {key: str(value).strip() for key, value in properties.items()}
        self._read_text = read_text

    def read(self) -> Security:
        self._refuse_the_unsupported()
        protocol = self._get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            self._error("security.protocol", f"{protocol} is unknown", _one_of(PROTOCOLS))
        self._refuse_what_plaintext_would_ignore()
        uses_sasl, uses_tls = protocol.startswith("SASL"), protocol.endswith("SSL")
        mechanism, username, password = self._sasl() if uses_sasl else (None, None, None)
        certificate, key = self._own_certificate() if uses_tls else (None, None)
        return Security(
            protocol=protocol,
            mechanism=mechanism,
            username=username,
            password=password,
            ca_pem=self._authorities() if uses_tls else None,
            certificate_pem=certificate,
            key_pem=key,
            key_password=self._properties.get("ssl.key.password") if key else None,
            check_hostname=self._check_hostname(),
        )

    def _error(self, key: str, problem: str, allowed: str) -> None:
        self.errors.append(SettingError(key=key, problem=problem, allowed=allowed))

    def _get(self, key: str, default: str) -> str:
        return self._properties.get(key) or default

    def _refuse_the_unsupported(self) -> None:
        for key in sorted(self._properties):
            if not key.startswith(_PREFIXES) or key in SUPPORTED:
                continue
            advice = _REFUSED.get(key)
            for prefix, prefix_advice in _REFUSED_PREFIXES.items():
                advice = prefix_advice if key.startswith(prefix) else advice
            if advice is not None:
                self._error(key, "it is not supported", advice)
                continue
            near = difflib.get_close_matches(key, sorted(SUPPORTED), n=1)
            hint = (
                f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(SUPPORTED))}"
            )
            self._error(key, "no such setting", hint)

    def _refuse_what_plaintext_would_ignore(self) -> None:
        if self._properties.get("security.protocol"):
            return
        for key in sorted(SUPPORTED & self._properties.keys() - {"security.protocol"}):
            problem = "it has no effect: security.protocol is not set, so connections are PLAINTEXT"
            self._error(key, problem, f"set security.protocol: {_one_of(PROTOCOLS)}")

    def _sasl(self) -> tuple[str, str | None, str | None]:
        mechanism = self._get("sasl.mechanism", "GSSAPI").upper()
        if mechanism not in sasl.MECHANISMS:
            missing = "" if "sasl.mechanism" in self._properties else " (Java's default)"
            problem = f"{mechanism}{missing} is not supported"
            self._error("sasl.mechanism", problem, _one_of(sasl.MECHANISMS))
            return mechanism, None, None
        expected = "PlainLoginModule" if mechanism == sasl.PLAIN else "ScramLoginModule"
        package = "plain" if mechanism == sasl.PLAIN else "scram"
        form = (
            f"write org.apache.kafka.common.security.{package}.{expected} "
            'required username="…" password="…";'
        )
        username, password = self._credentials(expected, form)
        return mechanism, username, password

    def _credentials(self, expected: str, form: str) -> tuple[str | None, str | None]:
        key = "sasl.jaas.config"
        if not self._properties.get(key):
            self._error(key, "it is missing", form)
            return None, None
        try:
            module = jaas.parse(self._properties[key])
        except jaas.JaasProblem as error:
            self._error(key, str(error), form)
            return None, None
        if module.simple_name != expected:
            problem = f"{module.simple_name} does not belong to this sasl.mechanism"
            self._error(key, problem, form)
            return None, None
        missing = [name for name in ("username", "password") if name not in module.options]
        if missing:
            self._error(key, f"{' and '.join(missing)} missing", form)
        for name in sorted(module.options.keys() - {"username", "password"}):
            self._error(key, f"its option {name} is not supported", form)
        return module.options.get("username"), module.options.get("password")

    def _check_hostname(self) -> bool:
        key = "ssl.endpoint.identification.algorithm"
        algorithm = self._properties.get(key, "https").lower()
        if algorithm not in {"https", ""}:
            self._error(key, f"{algorithm} is unknown", "https, or empty to check no host names")
        return algorithm != ""

    def _is_pem(self, store: str) -> bool:
        """Whether the store's type can be read; an error is noted if not."""
        key = f"ssl.{store}.type"
        kind = self._get(key, "JKS").upper()
        if kind == "PEM":
            return True
        if self._properties.get(f"ssl.{store}.location") or key in self._properties:
            missing = "" if key in self._properties else " (Java's default)"
            self._error(key, f"{kind}{missing} stores are not supported", _STORE_ADVICE[store])
        return False

    def _authorities(self) -> str | None:
        key = "ssl.truststore.certificates"
        given = self._properties.get(key)
        if not given:
            pem = self._is_pem("truststore")
            return self._pem_file("ssl.truststore.location", needs=_CERTIFICATE) if pem else None
        self._inline_needs_pem("truststore", key)
        return self._pem(key, given, needs=_CERTIFICATE)

    def _inline_needs_pem(self, store: str, key: str) -> None:
        kind = self._get(f"ssl.{store}.type", "PEM").upper()
        if kind != "PEM":
            self._error(f"ssl.{store}.type", f"it is {kind} beside {key}", "write PEM")

    def _own_certificate(self) -> tuple[str | None, str | None]:
        chain_name, key_name = "ssl.keystore.certificate.chain", "ssl.keystore.key"
        chain, key = self._properties.get(chain_name), self._properties.get(key_name)
        if chain or key:
            self._inline_needs_pem("keystore", chain_name)
            if not (chain and key):
                missing = key_name if chain else chain_name
                self._error(missing, "it is missing", f"{chain_name} and {key_name} go together")
            return (
                self._pem(chain_name, chain, needs=_CERTIFICATE) if chain else None,
                self._key(key_name, key) if key else None,
            )
        if not self._is_pem("keystore"):
            return None, None
        location = "ssl.keystore.location"
        text = self._pem_file(location, needs=_CERTIFICATE)
        return (text, self._key(location, text)) if text is not None else (None, None)

    def _key(self, name: str, text: str) -> str | None:
        if "ENCRYPTED" in text and not self._properties.get("ssl.key.password"):
            self._error(
                "ssl.key.password", f"it is missing, the key in {name} is encrypted", "set it"
            )
        return self._pem(name, text, needs=_KEY_MARK)

    def _pem_file(self, key: str, *, needs: str) -> str | None:
        path = self._properties.get(key)
        if not path:
            self._error(key, "it is missing", "name a PEM file")
            return None
        try:
            text = self._read_text(path)
        except OSError as error:
            self._error(key, f"{path} cannot be read: {error.strerror or error}", "name a PEM file")
            return None
        except UnicodeError:
            self._error(key, f"{path} is not a text file", "name a PEM file")
            return None
        return self._pem(key, text, needs=needs)

    def _pem(self, key: str, text: str, *, needs: str) -> str | None:
        if needs in text:
            return text
        what = "certificate" if needs == _CERTIFICATE else "private key"
        self._error(key, f"there is no {what} in it", "give PEM text, -----BEGIN … lines included")
        return None


def _one_of(choices: tuple[str, ...]) -> str:
    return f"allowed are {', '.join(choices)}"
