"""Who people are told to name, and which file they are told to run."""

from __future__ import annotations

import pytest

from connect_runtime.kafka_client import access
from connect_runtime.system import certificates, clock
from connect_runtime.wire.codec import security_settings
from mm2.connectors import operators

TOKENS = security_settings.OAuth(
    endpoint="https://issuer/token", client_id="flow", client_secret="hunter2"
)


@pytest.fixture
def own_file(monkeypatch):
    monkeypatch.setattr(operators._Process, "file", "clusters.yaml")


def test_clusters_are_named_without_secrets(own_file, monkeypatch):
    monkeypatch.chdir("/")
    secured = security_settings.Security(protocol="SASL_SSL", username="mirror", password="hunter2")
    source = access.Access(bootstrap=("a:1", "a:2"))
    target = access.Access(bootstrap=("b:1",), security=secured)
    found = operators.of(source=source, target=target, connector="mirror")
    assert (found.source.bootstrap, found.source.secured) == ("a:1,a:2", False)
    assert (found.target.principal, found.target.secured) == ("User:mirror", True)
    assert "hunter2" not in repr(found)
    assert found.run() == "mm2 run --config clusters.yaml"
    operators.use_file("c.yaml")
    found = operators.of(source=source, target=target, connector="mirror")
    assert found.run() == "mm2 run --config /c.yaml"


def test_on_a_plain_worker_its_rest_api_is_the_way(monkeypatch):
    monkeypatch.setattr(operators._Process, "file", "")
    found = operators.of(
        source=access.Access(bootstrap=("a:1",)),
        target=access.Access(bootstrap=("b:1",)),
        connector="my mirror",
    )
    assert found.restart("a->b") == (
        "curl -f -X POST 'http://WORKER:8083/connectors/my%20mirror/restart?includeTasks=true'"
    )


def test_a_certificates_owner_is_named_as_brokers_name_it():
    authority = certificates.Authority.create("ca", wall_ms=clock.SystemClock().wall_ms())
    leaf = authority.issue("mirror", hosts=(), wall_ms=clock.SystemClock().wall_ms())
    security = security_settings.Security(
        protocol="SSL", certificate_pem=leaf.certificate_pem.decode()
    )
    assert operators.principal(security) == "User:CN=mirror"


@pytest.mark.parametrize(
    ("fields", "principal"),
    [
        ({"protocol": "PLAINTEXT"}, "User:ANONYMOUS"),
        ({"protocol": "SSL"}, "User:ANONYMOUS"),
        ({"protocol": "SASL_PLAINTEXT", "username": "me"}, "User:me"),
        ({"protocol": "SASL_SSL", "oauth": TOKENS}, "User:flow"),
        ({"protocol": "SASL_SSL"}, "User:NAME"),
    ],
)
def test_who_brokers_take_us_for(fields, principal):
    assert operators.principal(security_settings.Security(**fields)) == principal
