"""Creates a certificate authority and its certificates, for TLS between an mm2 command and the
processes that it starts.

Keys are EC P-256 in unencrypted PKCS #8. Everything is in PEM format, and nothing is written to
disk.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate for a server or client, and its private key, both in PEM format."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAuthority:
    """Issues certificates for clients and servers that trust `certificate_pem`."""

    certificate_pem: bytes
    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, common_name: str, *, wall_ms: int, valid_days: int = 365) -> Self:
        """Create a self-signed certificate authority whose validity begins one hour before
        `wall_ms`."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _build_x509_name(common_name)
        builder = _create_certificate_builder(name, key, wall_ms=wall_ms, valid_days=valid_days)
        certificate = (
            builder.issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_build_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return cls(certificate_pem=pem, _key=key)

    def issue_certificate(
        self, common_name: str, *, hosts: Sequence[str], wall_ms: int, valid_days: int = 365
    ) -> Certificate:
        """Issue a certificate for a server or client.

        `hosts` are the DNS names and IP addresses of a server; empty for a certificate that is used
        only as a client.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.load_pem_x509_certificate(self.certificate_pem)
        builder = (
            _create_certificate_builder(
                _build_x509_name(common_name), key, wall_ms=wall_ms, valid_days=valid_days
            )
            .issuer_name(authority.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_build_key_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName(
                [_build_subject_alternative_name(host) for host in hosts]
            )
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Certificate(
            certificate_pem=certificate.public_bytes(serialization.Encoding.PEM),
            key_pem=key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )


def _create_certificate_builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, wall_ms: int, valid_days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(wall_ms / 1000, tz=datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=valid_days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _build_x509_name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _build_subject_alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _build_key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
