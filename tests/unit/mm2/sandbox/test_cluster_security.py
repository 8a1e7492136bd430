from __future__ import annotations

import re

import pytest

from mm2.sandbox.cluster_security import ClusterSecurity


@pytest.fixture(scope="module")
def security(tmp_path_factory):
    return ClusterSecurity.create(tmp_path_factory.mktemp("s") / "security", ["alice"])


def test_every_user_has_a_password_of_its_own(security):
    assert sorted(security.passwords) == ["admin", "alice", "broker"]
    assert len(set(security.passwords.values())) == 3
    assert all(re.fullmatch(r"[\w-]{24}", password) for password in security.passwords.values())


def test_files_with_secrets_are_the_owners_alone(security):
    assert security.folder.stat().st_mode & 0o777 == 0o700
    assert (security.folder / "broker.pem").stat().st_mode & 0o777 == 0o600


def test_every_client_listener_gets_every_mechanism(security):
    settings = security.make_broker_settings(
        ["CLIENT", "TOX"], controller="CONTROLLER", authorizer="x.Authorizer"
    )

    for listener in ("client", "tox"):
        for mechanism in ("scram-sha-512", "scram-sha-256", "plain"):
            assert f"listener.name.{listener}.{mechanism}.sasl.jaas.config" in settings
    plain = settings["listener.name.tox.plain.sasl.jaas.config"]
    assert f'user_alice="{security.passwords["alice"]}"' in plain
    controllers = settings["listener.name.controller.plain.sasl.jaas.config"]
    assert "user_broker=" in controllers
    assert "user_alice=" not in controllers
    assert "user_admin=" not in controllers


def test_brokers_without_controllers_of_their_own_get_the_key_in_their_settings(security):
    settings = security.make_broker_settings(
        ["CLIENT"], controller=None, authorizer="x.Authorizer", key_in_settings=True
    )

    assert "ssl.keystore.location" not in settings
    assert settings["ssl.keystore.key"].startswith("-----BEGIN")
    assert settings["authorizer.class.name"] == "x.Authorizer"
    assert not any("controller" in key for key in settings)
    assert settings["ssl.keystore.key"] not in repr(security)


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "PlainLoginModule"), ("SCRAM-SHA-256", "ScramLoginModule")]
)
def test_client_properties_are_spelled_as_java_spells_them(security, mechanism, module):
    access = security.client_properties("alice", mechanism)

    assert access.pop("sasl.jaas.config").endswith(
        f'.{module} required username="alice" password="{security.passwords["alice"]}";'
    )
    assert access == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.folder / "ca.pem"),
    }


def test_without_tls_a_login_is_still_required(tmp_path):
    security = ClusterSecurity.create(tmp_path / "security", uses_tls=False)
    settings = security.make_broker_settings(
        ["CLIENT"], controller="CONTROLLER", authorizer="x.Authorizer"
    )
    assert not [key for key in settings if key.startswith("ssl.")]
    assert settings["super.users"] == "User:admin;User:broker"
    access = security.client_properties("admin", "SCRAM-SHA-512")
    assert (security.protocol, access["security.protocol"]) == ("SASL_PLAINTEXT", "SASL_PLAINTEXT")
    assert not [key for key in access if key.startswith("ssl.")]
