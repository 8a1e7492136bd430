"""Client certificates, as files and as texts, on a broker that asks for them; both clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.request_builders import AnyNodeTarget
from connect_runtime.protocol.request_errors import AuthenticationFailed
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import client_certificates, cluster_access, wire
from tests.support.client_certificates import Identity
from tests.support.wire import Driver

pytestmark = pytest.mark.integration

ROOT = client_certificates.root("root")
CLIENT = client_certificates.leaf("mm2", client_certificates.between("between", ROOT))
STRANGER = client_certificates.leaf("stranger", client_certificates.root("elsewhere"))
WAIT_S = 30.0


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    """Its broker trusts the root alone: a client must send the authority between as well."""
    folder = tmp_path_factory.mktemp("door")
    settings = client_certificates.broker_settings(
        folder, server=client_certificates.leaf("broker", ROOT), clients_root=ROOT
    )
    (folder / "ca.pem").write_text(client_certificates.pem(ROOT.certificate))
    with SandboxCluster("door", settings=settings) as running:
        yield running, folder


def pem_file(folder: Path, who: Identity) -> dict[str, str]:
    (folder / "client.pem").write_text(who.chain_pem + who.key_pem)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "client.pem")}


def locked_file(folder: Path, who: Identity) -> dict[str, str]:
    (folder / "locked.pem").write_text(who.locked_key_pem + who.chain_pem)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "locked.pem"),
        "ssl.key.password": client_certificates.KEY_PASSWORD,
    }


def inline(folder: Path, who: Identity) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": who.chain_pem,
        "ssl.keystore.key": who.key_pem,
    }


def pkcs12(folder: Path, who: Identity) -> dict[str, str]:
    (folder / "client.p12").write_bytes(who.pkcs12())
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "client.p12"),
        "ssl.keystore.password": client_certificates.STORE_PASSWORD,
    }


def properties(running, folder, own) -> dict[str, str]:
    return {
        "bootstrap.servers": running.bootstrap,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        **own,
    }


def access(given: dict[str, str]) -> KafkaClusterAccess:
    return KafkaClusterAccess(
        name="door",
        bootstrap=(given["bootstrap.servers"],),
        security=wire.security_of(given),
        properties={},
    )


@pytest.mark.parametrize("form", [pem_file, locked_file, inline, pkcs12])
def test_a_client_gets_in_by_its_certificate(door, form):
    running, folder = door
    given = properties(running, folder, form(folder, CLIENT))
    with Driver(given) as driver:
        driver.ask(AnyNodeTarget(), wire.broker_settings(1))
    assert cluster_access.admin(access(given)).read_cluster_id(WAIT_S)


@pytest.mark.parametrize("who", [None, STRANGER], ids=["none", "a stranger's"])
def test_without_a_certificate_that_the_broker_trusts_the_refusal_says_so(door, who):
    running, folder = door
    given = properties(running, folder, pem_file(folder, who) if who else {})
    with Driver(given) as driver:
        reply = driver.call(AnyNodeTarget(), wire.broker_settings(1), timeout_s=10.0)
    assert isinstance(reply.failure, AuthenticationFailed), reply.failure
    assert "check whether it requires a client certificate" in str(reply.failure)
    with pytest.raises(AuthenticationError) as raised:
        cluster_access.admin(access(given)).list_topics(WAIT_S)
    assert "certificate" in str(raised.value)
    assert "PRIVATE KEY" not in str(raised.value)
