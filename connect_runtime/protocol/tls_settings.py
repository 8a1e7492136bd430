"""Reads a client's `ssl.*` properties: trusted authorities, client certificate, private key and
hostname verification.

Key stores and trust stores are PEM or PKCS12. A store that is declared as JKS but contains PKCS12
(keytool's default since Java 9) is accepted, as in Java (`keystore.type.compat`). A real JKS store
is rejected with an error message that contains the command to convert it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from connect_runtime.protocol import client_property_reader
from connect_runtime.protocol.client_property_reader import PropertyReader

TLS_KEYS = frozenset({
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
})  # fmt: skip

_STORE_TYPES = ("PEM", "PKCS12", "JKS")
_CERTIFICATE_MARK = "-----BEGIN CERTIFICATE-----"
_KEY_MARK = "PRIVATE KEY-----"
_NO_STORE_PASSWORD_ADVICE = (
    "remove this setting: PEM stores have no password (for an encrypted key, set ssl.key.password)"  # noqa: S105
)
_CONVERT_ADVICE = (
    "convert the store: keytool -importkeystore -srckeystore <store> -destkeystore store.p12 "
    "-deststoretype PKCS12, then set type PKCS12 and location store.p12; or convert the result to "
    "PEM: openssl pkcs12 -in store.p12 -nodes -out store.pem, then set type PEM and location "
    "store.pem"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStoreContent:
    """Content of a key store as PEM strings; "" for missing parts. The private key is not
    encrypted."""

    certificates_pem: str = ""
    """The certificate chain of the store's private key, if any, followed by all other
    certificates."""
    key_pem: str = field(default="", repr=False)


class JksFormatError(ValueError):
    """Raised if a key store is in Sun's JKS format, which only Java can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStoreFileReader:
    """Functions that read PEM files and key stores from disk. Both may raise OSError."""

    read_text: Callable[[str], str]
    """Reads the text file at a path. Raises UnicodeError if the file is not text."""
    read_store: Callable[[str, str], KeyStoreContent]
    """Reads the PKCS12 file at (path, password). Raises JksFormatError for a file in JKS format,
    and another ValueError if the file cannot be decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS settings with certificates and private key as PEM strings. Without `ca_pem`, the
    certificate authorities of the system are trusted. Without `certificate_pem`, no client
    certificate is sent. Without `key_password`, the private key is not encrypted."""

    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


def read_tls_settings(
    reader: PropertyReader, files: KeyStoreFileReader, *, uses_tls: bool
) -> TlsSettings:
    """Read a client's ssl.* properties. Errors are collected in `reader`. Key and trust stores are
    read only if TLS is used."""
    check_hostname = _read_hostname_verification_flag(reader)
    if not uses_tls:
        return TlsSettings(check_hostname=check_hostname)
    store_reader = _TlsSettingsReader(reader, files)
    authorities = store_reader.read_certificate_authorities()
    certificate, key, password = store_reader.read_client_certificate()
    return TlsSettings(
        ca_pem=authorities,
        certificate_pem=certificate,
        key_pem=key,
        key_password=password,
        check_hostname=check_hostname,
    )


def _read_hostname_verification_flag(reader: PropertyReader) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    algorithm = reader.properties.get(key, "https").lower()
    if algorithm not in {"https", ""}:
        reader.add_error(
            key, f"{algorithm} is unknown", ("https, or empty to disable hostname verification")
        )
    return algorithm != ""


class _TlsSettingsReader:
    """Reads the key store and trust store that the ssl.* properties specify."""

    def __init__(self, reader: PropertyReader, files: KeyStoreFileReader) -> None:
        self._reader = reader
        self._files = files

    def read_certificate_authorities(self) -> str | None:
        """Return the trusted certificate authorities as PEM text; None for the system's
        authorities."""
        name = "ssl.truststore.certificates"
        given = self._reader.get(name)
        if given:
            self._require_pem_type("truststore", name)
            return self._check_pem_text(name, given, needs=_CERTIFICATE_MARK)
        if not self._is_store_configured("truststore"):
            return None
        if self._read_store_type("truststore") == "PEM":
            return self._read_pem_file("truststore", needs=_CERTIFICATE_MARK)
        store = self._read_store("truststore")
        if store is None:
            return None
        if not store.certificates_pem:
            problem = "it contains no certificate"
            self._reader.add_error("ssl.truststore.location", problem, "name a trust store")
        return store.certificates_pem

    def read_client_certificate(self) -> tuple[str | None, str | None, str | None]:
        """Return the client's certificate chain, private key and key password."""
        chain_name, key_name = "ssl.keystore.certificate.chain", "ssl.keystore.key"
        chain, key = self._reader.get(chain_name), self._reader.get(key_name)
        password = self._reader.get("ssl.key.password") or None
        if chain or key:
            self._require_pem_type("keystore", chain_name)
            if not (chain and key):
                missing = key_name if chain else chain_name
                self._reader.add_error(
                    missing, "it is missing", f"{chain_name} and {key_name} go together"
                )
            found = (
                self._check_pem_text(chain_name, chain, needs=_CERTIFICATE_MARK) if chain else None
            )
            return found, self._check_private_key(key_name, key) if key else None, password
        if not self._is_store_configured("keystore"):
            return None, None, None
        if self._read_store_type("keystore") != "PEM":
            return self._read_client_key_store()
        text = self._read_pem_file("keystore", needs=_CERTIFICATE_MARK)
        if text is None:
            return None, None, None
        return text, self._check_private_key("ssl.keystore.location", text), password

    def _read_client_key_store(self) -> tuple[str | None, str | None, str | None]:
        password = self._reader.get("ssl.key.password")
        if password and password != self._reader.get("ssl.keystore.password"):
            problem = "it differs from ssl.keystore.password"
            self._reader.add_error(
                "ssl.key.password",
                problem,
                "remove it, because a PKCS12 store has one password for the store and its key",
            )
        store = self._read_store("keystore")
        if store is None:
            return None, None, None
        if not (store.key_pem and store.certificates_pem):
            problem = "the store contains no private key with its certificate"
            self._reader.add_error(
                "ssl.keystore.location", problem, "specify the client's own key store"
            )
        return store.certificates_pem, store.key_pem, None

    def _is_store_configured(self, store: str) -> bool:
        """Return True if the store's location or type is configured. A type without a location is
        reported as an error later."""
        found = (self._reader.get(f"ssl.{store}.{key}") for key in ("location", "type"))
        return any(found)

    def _read_store_type(self, store: str) -> str:
        key = f"ssl.{store}.type"
        kind = self._reader.get(key, "JKS").upper()
        if kind not in _STORE_TYPES:
            self._reader.add_error(
                key, f"{kind} is unknown", client_property_reader.format_choices(_STORE_TYPES)
            )
            return "PKCS12"
        if kind == "PEM" and self._reader.get(f"ssl.{store}.password"):
            self._reader.add_error(
                f"ssl.{store}.password", "it has no effect", _NO_STORE_PASSWORD_ADVICE
            )
        return kind

    def _read_store(self, store: str) -> KeyStoreContent | None:
        key = f"ssl.{store}.location"
        path = self._reader.get(key)
        if not path:
            self._reader.add_error(key, "it is missing", "name a key store")
            return None
        try:
            return self._files.read_store(path, self._reader.get(f"ssl.{store}.password"))
        except JksFormatError:
            self._reader.add_error(
                key, f"{path} is a JKS store, which is not supported", _CONVERT_ADVICE
            )
        except OSError as error:
            problem = f"{path} cannot be read: {error.strerror or error}"
            self._reader.add_error(key, problem, "name a key store")
        except ValueError as error:
            advice = f"check ssl.{store}.password and ssl.{store}.type"
            self._reader.add_error(key, f"{path} cannot be opened: {error}", advice)
        return None

    def _require_pem_type(self, store: str, name: str) -> None:
        kind = self._reader.get(f"ssl.{store}.type", "PEM").upper()
        if kind != "PEM":
            self._reader.add_error(
                f"ssl.{store}.type", f"the type is {kind}, but {name} is set", "set the type to PEM"
            )

    def _check_private_key(self, name: str, text: str) -> str | None:
        if "ENCRYPTED" in text and not self._reader.get("ssl.key.password"):
            problem = f"not set, but the key in {name} is encrypted"
            self._reader.add_error("ssl.key.password", problem, "set it")
        return self._check_pem_text(name, text, needs=_KEY_MARK)

    def _read_pem_file(self, store: str, *, needs: str) -> str | None:
        key = f"ssl.{store}.location"
        path = self._reader.get(key)
        if not path:
            self._reader.add_error(key, "it is missing", "name a PEM file")
            return None
        try:
            text = self._files.read_text(path)
        except OSError as error:
            problem = f"{path} cannot be read: {error.strerror or error}"
            self._reader.add_error(key, problem, "name a PEM file")
            return None
        except UnicodeError:
            self._reader.add_error(key, f"{path} is not a text file", "name a PEM file")
            return None
        return self._check_pem_text(key, text, needs=needs)

    def _check_pem_text(self, key: str, text: str, *, needs: str) -> str | None:
        if needs in text:
            return text
        what = "certificate" if needs == _CERTIFICATE_MARK else "private key"
        advice = "provide PEM text, including the -----BEGIN … lines"
        self._reader.add_error(key, f"it contains no {what}", advice)
        return None
