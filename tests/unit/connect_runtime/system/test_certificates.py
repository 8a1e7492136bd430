from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
from concurrent import futures

import pytest
from cryptography import x509

from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock


@pytest.fixture(scope="module")
def authority():
    return CertificateAuthority.create("ours", wall_ms=SystemClock().wall_ms())


def _issue(authority, *hosts):
    return authority.issue_certificate("server", hosts=hosts, wall_ms=SystemClock().wall_ms())


def _handshake(tmp_path, leaf, *, trusted, host):
    """Connect a client that checks names to a server with `leaf`; raises what the client sees."""
    pem = tmp_path / "server.pem"
    pem.write_bytes(leaf.key_pem + leaf.certificate_pem)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pem)
    client_side = ssl.create_default_context(cadata=trusted.certificate_pem.decode())
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            accepted, _ = listener.accept()
            # The client's refusal is what the test looks at, not what it does to the server.
            with accepted, contextlib.suppress(OSError):
                server_side.wrap_socket(accepted, server_side=True).close()

        with futures.ThreadPoolExecutor() as pool:
            pool.submit(serve)
            with (
                socket.create_connection(listener.getsockname(), timeout=5) as plain,
                client_side.wrap_socket(plain, server_hostname=host),
            ):
                pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_is_good_for_each_of_its_hosts(tmp_path, authority, host):
    leaf = _issue(authority, "127.0.0.1", "localhost")

    _handshake(tmp_path, leaf, trusted=authority, host=host)


def test_another_host_and_another_authority_are_refused(tmp_path, authority):
    leaf = _issue(authority, "localhost")
    stranger = CertificateAuthority.create("ours", wall_ms=SystemClock().wall_ms())

    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        _handshake(tmp_path, leaf, trusted=authority, host="127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(tmp_path, leaf, trusted=stranger, host="localhost")


def test_validity_starts_an_hour_early_and_lasts_the_days_asked_for():
    authority = CertificateAuthority.create("ours", wall_ms=86_400_000, valid_days=2)
    leaf = authority.issue_certificate("leaf", hosts=[], wall_ms=86_400_000, valid_days=1)

    made = x509.load_pem_x509_certificate(leaf.certificate_pem)
    root = x509.load_pem_x509_certificate(authority.certificate_pem)

    day = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)
    assert made.not_valid_before_utc == day - datetime.timedelta(hours=1)
    assert made.not_valid_after_utc == day + datetime.timedelta(days=1)
    assert root.not_valid_after_utc == day + datetime.timedelta(days=2)
    made.verify_directly_issued_by(root)


def test_private_keys_are_in_no_repr(authority):
    leaf = _issue(authority, "localhost")

    assert "PRIVATE KEY" in leaf.key_pem.decode()
    assert "PRIVATE KEY" not in repr(leaf)
    assert "PrivateKey" not in repr(authority)
