"""A cluster that lets in only who shows a certificate, and the files of such clients."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock

STORE_PASSWORD = "store-pass"
KEY_PASSWORD = "key-pass"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A certificate with its key; `chain` are the authorities between it and the root."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def chain_pem(self) -> str:
        return "".join(pem(each) for each in (self.certificate, *self.chain))

    @property
    def key_pem(self) -> str:
        return self._key_pem(serialization.NoEncryption())

    @property
    def locked_key_pem(self) -> str:
        return self._key_pem(serialization.BestAvailableEncryption(KEY_PASSWORD.encode()))

    def pkcs12(self) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"me",
            self.key,
            self.certificate,
            self.chain,
            serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
        )

    def _key_pem(self, encryption: serialization.KeySerializationEncryption) -> str:
        kind = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, kind, encryption).decode()


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def root(name: str) -> Identity:
    return _issue(name, None, authority=True)


def between(name: str, issuer: Identity) -> Identity:
    """An authority below another one."""
    return _issue(name, issuer, authority=True)


def leaf(name: str, issuer: Identity, *, expired: bool = False) -> Identity:
    return _issue(name, issuer, authority=False, expired=expired)


def _issue(
    name: str, issuer: Identity | None, *, authority: bool, expired: bool = False
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signer = key if issuer is None else issuer.key
    now = datetime.datetime.fromtimestamp(SystemClock().wall_ms() / 1000, tz=datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(minutes=-1 if expired else 43_200))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if not authority:
        local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([local]), critical=False)
    below_root = issuer is not None and issuer.certificate.issuer != issuer.certificate.subject
    above = (issuer.certificate, *issuer.chain) if issuer is not None and below_root else ()
    return Identity(certificate=builder.sign(signer, hashes.SHA256()), key=key, chain=above)


def broker_settings(folder: Path, *, server: Identity, clients_root: Identity) -> dict[str, str]:
    """Settings of a sandbox cluster whose client listener asks for certificates."""
    (folder / "server.pem").write_text(server.key_pem + server.chain_pem)
    (folder / "clients.pem").write_text(pem(clients_root.certificate))
    return {
        "listener.security.protocol.map": "CLIENT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "clients.pem"),
        "ssl.client.auth": "required",
    }


@contextlib.contextmanager
def expired_listener(folder: Path) -> Iterator[dict[str, str]]:
    """Client properties of a listener whose certificate has expired. No broker starts with one."""
    authority = root("authority")
    server = leaf("127.0.0.1", authority, expired=True)
    (folder / "server.pem").write_text(server.key_pem + server.chain_pem)
    (folder / "authority.pem").write_text(pem(authority.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    owned = ThreadGroup(on_unexpected_end=lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)

        def serve(stop: threading.Event) -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):  # who comes ends it: the certificate is bad
                    accepted, _ = listener.accept()
                    accepted.settimeout(2.0)
                    with accepted, context.wrap_socket(accepted, server_side=True) as secure:
                        secure.recv(1)

        owned.start("tls", serve)
        yield {
            "bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}",
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "authority.pem"),
        }
        assert owned.stop_all(10.0) == []
