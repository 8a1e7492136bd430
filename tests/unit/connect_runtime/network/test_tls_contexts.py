from __future__ import annotations

import ssl

import pytest

from connect_runtime.network import tls_contexts
from connect_runtime.network.tls_contexts import UnusableCertificate
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock

WALL_MS = SystemClock().wall_ms()
AUTHORITY = CertificateAuthority.create("ca", wall_ms=WALL_MS)
LEAF = AUTHORITY.issue_certificate("mm2", hosts=(), wall_ms=WALL_MS)
CA_PEM = AUTHORITY.certificate_pem.decode()


def settings(**changed: object) -> SecuritySettings:
    given = {
        "protocol": "SSL",
        "ca_pem": CA_PEM,
        "certificate_pem": LEAF.certificate_pem.decode(),
        "key_pem": LEAF.key_pem.decode(),
    }
    return SecuritySettings(**{**given, **changed})  # type: ignore[arg-type]


def test_what_is_right_is_usable():
    assert tls_contexts.find_unusable_certificates(settings()) == []
    context = tls_contexts.create_tls_context(settings())
    assert context is not None
    assert context.check_hostname
    assert tls_contexts.create_tls_context(settings(protocol="SASL_PLAINTEXT")) is None


def test_bundles_may_have_comments_in_every_language():
    bundle = settings(ca_pem=f"# F\u0151tan\u00fas\u00edtv\u00e1ny\n{CA_PEM}")
    assert tls_contexts.find_unusable_certificates(bundle) == []
    context = tls_contexts.create_tls_context(bundle)
    assert context is not None
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("changed", "stores"),
    [
        ({"ca_pem": "-----BEGIN CERTIFICATE-----\nMII="}, ["ssl.truststore"]),
        ({"ca_pem": ""}, ["ssl.truststore"]),
        ({"key_pem": "-----BEGIN PRIVATE KEY-----\nMII="}, ["ssl.keystore"]),
        ({"certificate_pem": CA_PEM}, ["ssl.keystore"]),
        ({"ca_pem": "x", "certificate_pem": "x"}, ["ssl.truststore", "ssl.keystore"]),
    ],
    ids=["authority", "none", "key", "another's key", "both"],
)
def test_what_is_not_is_told_at_once_and_refused(changed, stores):
    found = tls_contexts.find_unusable_certificates(settings(**changed))
    assert [each.store for each in found] == stores
    assert all(str(each).startswith(f"{each.store}: OpenSSL reports ") for each in found)
    with pytest.raises(UnusableCertificate):
        tls_contexts.create_tls_context(settings(**changed))


@pytest.mark.parametrize("clients", list(ssl.VerifyMode))
def test_a_server_asks_clients_as_it_is_told(clients: ssl.VerifyMode) -> None:
    context = tls_contexts.create_server_tls_context(settings(), client_verify_mode=clients)
    assert context.verify_mode is clients
    assert len(context.get_ca_certs()) == 1


def test_a_server_needs_a_certificate() -> None:
    with pytest.raises(UnusableCertificate, match=r"^ssl.keystore: a TLS server needs"):
        tls_contexts.create_server_tls_context(
            settings(certificate_pem=None), client_verify_mode=ssl.CERT_NONE
        )
