"""Who people are told to name, and which file they are told to run."""

from __future__ import annotations

import pytest

from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.security_settings import OAuthSettings, SecuritySettings
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.kafka import suggested_command_arguments

TOKENS = OAuthSettings(endpoint="https://issuer/token", client_id="flow", client_secret="hunter2")


@pytest.fixture
def own_file(monkeypatch):
    monkeypatch.setattr(suggested_command_arguments._CurrentConfigFile, "file", "clusters.yaml")


def test_clusters_are_named_without_secrets(own_file, monkeypatch):
    monkeypatch.chdir("/")
    secured = SecuritySettings(protocol="SASL_SSL", username="mirror", password="hunter2")
    source = KafkaClusterAccess(bootstrap=("a:1", "a:2"))
    target = KafkaClusterAccess(bootstrap=("b:1",), security=secured)
    found = suggested_command_arguments.build_operator_commands(
        source=source, target=target, connector="mirror"
    )
    assert (found.source.bootstrap, found.source.secured) == ("a:1,a:2", False)
    assert (found.target.principal, found.target.secured) == ("User:mirror", True)
    assert "hunter2" not in repr(found)
    assert found.build_mm2_run_command() == "mm2 run --config clusters.yaml"
    suggested_command_arguments.set_config_file("c.yaml")
    found = suggested_command_arguments.build_operator_commands(
        source=source, target=target, connector="mirror"
    )
    assert found.build_mm2_run_command() == "mm2 run --config /c.yaml"


def test_on_a_plain_worker_its_rest_api_is_the_way(monkeypatch):
    monkeypatch.setattr(suggested_command_arguments._CurrentConfigFile, "file", "")
    found = suggested_command_arguments.build_operator_commands(
        source=KafkaClusterAccess(bootstrap=("a:1",)),
        target=KafkaClusterAccess(bootstrap=("b:1",)),
        connector="my mirror",
    )
    assert found.build_restart_command("a->b") == (
        "curl -f -X POST 'http://WORKER:8083/connectors/my%20mirror/restart?includeTasks=true'"
    )


def test_a_certificates_owner_is_named_as_brokers_name_it():
    authority = CertificateAuthority.create("ca", wall_ms=SystemClock().wall_ms())
    leaf = authority.issue_certificate("mirror", hosts=(), wall_ms=SystemClock().wall_ms())
    security = SecuritySettings(protocol="SSL", certificate_pem=leaf.certificate_pem.decode())
    assert suggested_command_arguments.resolve_principal(security) == "User:CN=mirror"


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
    assert suggested_command_arguments.resolve_principal(SecuritySettings(**fields)) == principal
