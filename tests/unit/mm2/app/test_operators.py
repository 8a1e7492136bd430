from __future__ import annotations

import pathlib

import pytest

from connect_runtime.system import certificates, clock
from connect_runtime.wire.codec import security_settings
from mm2.app import operators
from mm2.app.settings import load

FILE = """
clusters:
  east: {bootstrap.servers: 'e1:9092,e2:9092'}
  west:
    bootstrap.servers: w:9093
    security.protocol: SASL_SSL
    sasl.mechanism: SCRAM-SHA-512
    sasl.jaas.config: >-
      org.apache.kafka.common.security.scram.ScramLoginModule required
      username="mirror" password="hunter2";
flows:
- {from: east, to: west}
"""


def test_a_flows_operator_knows_the_file_the_clusters_and_no_secret(monkeypatch):
    monkeypatch.chdir("/")
    settings = load.parse(FILE, file="c.yaml", folder=pathlib.Path("/"), environment={})
    found = operators.of(settings, settings.flows[0])
    assert found.file == "/c.yaml"
    assert (found.source.bootstrap, found.source.secured) == ("e1:9092,e2:9092", False)
    assert found.source.principal == "User:ANONYMOUS"
    assert (found.target.bootstrap, found.target.secured) == ("w:9093", True)
    assert found.target.principal == "User:mirror"
    assert "hunter2" not in repr(found)


TOKENS = security_settings.OAuth(
    endpoint="https://issuer/token", client_id="flow", client_secret="hunter2"
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
