"""Which mechanism reads what; errors: test_security_settings.py, test_oauth_settings.py."""

from __future__ import annotations

import json

import pytest

from connect_runtime.protocol import security_settings
from connect_runtime.protocol.client_property_reader import InvalidSettingError, PropertyReader
from connect_runtime.protocol.security_settings import (
    SaslSettings,
    SecurityParseResult,
    SecuritySettings,
)
from connect_runtime.protocol.tls_settings import KeyStoreContent, KeyStoreFileReader

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def no_file(*_: str) -> KeyStoreContent:
    raise AssertionError(_)


def read(**properties: str) -> tuple[SaslSettings, list[InvalidSettingError]]:
    given = {f"sasl.{key.replace('__', '.')}": value for key, value in properties.items()}
    account = PropertyReader(given)
    files = KeyStoreFileReader(read_text=lambda path: "", read_store=no_file)
    return security_settings.read_sasl_settings(account, files), account.errors


def test_a_name_and_a_password_are_the_login_modules():
    found, errors = read(
        mechanism="scram-sha-256", jaas__config=f"{MODULE} username=alice password=hunter2;"
    )
    assert not errors
    assert (found.mechanism, found.username, found.password) == (
        "SCRAM-SHA-256",
        "alice",
        "hunter2",
    )
    assert found.oauth is None
    assert "hunter2" not in repr(found)


def test_a_client_of_an_issuer_is_called_by_its_id():
    found, errors = read(
        mechanism="OAUTHBEARER",
        oauthbearer__token__endpoint__url="http://id/token",
        oauthbearer__client__credentials__client__id="mm2",
        oauthbearer__client__credentials__client__secret="s3cret",
    )
    assert not errors
    assert (found.mechanism, found.username, found.password) == ("OAUTHBEARER", "mm2", None)
    assert found.oauth is not None
    assert "s3cret" not in repr(found)


def test_an_unknown_mechanism_reads_nothing_more():
    found, errors = read(mechanism="DIGEST-MD5", jaas__config="nonsense")
    assert (found.username, found.oauth) == (None, None)
    assert [error.key for error in errors] == ["sasl.mechanism"]


CA = "-----BEGIN CERTIFICATE-----\nCA\n-----END CERTIFICATE-----\n"
CHAIN = "-----BEGIN CERTIFICATE-----\nOWN\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nK\n-----END PRIVATE KEY-----\n"
LOCKED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nK\n-----END ENCRYPTED PRIVATE KEY-----\n"
FILES = {
    "/ca.pem": CA,
    "/client.pem": CHAIN + KEY,
    "/chain.pem": CHAIN,
    "/locked.pem": CHAIN + LOCKED,
}
SCRAM_JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="hunter2";'
)
PLAIN_JAAS = SCRAM_JAAS.replace("scram.Scram", "plain.Plain")


def read_text(path: str) -> str:
    if path == "/binary":
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x")
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def no_store(path: str, password: str) -> KeyStoreContent:
    raise AssertionError(path)


def parse(**properties: str) -> SecurityParseResult:
    spelled = {key.replace("__", "."): value for key, value in properties.items()}
    return security_settings.parse_security_settings(
        spelled, files=KeyStoreFileReader(read_text=read_text, read_store=no_store)
    )


def accepted(**properties: str) -> SecuritySettings:
    parsed = parse(**properties)
    assert parsed.errors == ()
    assert parsed.security is not None
    return parsed.security


def refused(**properties: str) -> dict[str, str]:
    parsed = parse(**properties)
    assert parsed.security is None
    assert len({error.key for error in parsed.errors}) == len(parsed.errors)
    return {error.key: str(error) for error in parsed.errors}


def test_nothing_set_is_plaintext_and_other_keys_are_somebody_elses():
    plain = accepted(bootstrap__servers="x", client__id="y")
    assert plain == SecuritySettings()
    assert (plain.uses_tls, plain.uses_sasl) == (False, False)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "scram-sha-512"])
def test_sasl_ssl_with_scram_and_a_pem_truststore(mechanism):
    found = accepted(
        security__protocol="SASL_SSL",
        sasl__mechanism=mechanism,
        sasl__jaas__config=SCRAM_JAAS,
        ssl__truststore__type="PEM",
        ssl__truststore__location="/ca.pem",
    )
    assert (found.uses_tls, found.uses_sasl) == (True, True)
    assert (found.mechanism, found.username, found.password) == (
        mechanism.upper(), "alice", "hunter2",
    )  # fmt: skip
    assert (found.ca_pem, found.certificate_pem, found.check_hostname) == (CA, None, True)


def test_plain_with_inline_authorities_and_no_host_name_check():
    found = accepted(
        security__protocol="sasl_ssl",
        sasl__mechanism="PLAIN",
        sasl__jaas__config=PLAIN_JAAS,
        ssl__truststore__type="PEM",
        ssl__truststore__certificates=CA,
        ssl__endpoint__identification__algorithm="",
    )
    assert (found.mechanism, found.ca_pem, found.check_hostname) == ("PLAIN", CA.strip(), False)


def test_mutual_tls_from_a_file_or_inline():
    from_file = accepted(
        security__protocol="SSL", ssl__keystore__type="PEM", ssl__keystore__location="/client.pem"
    )
    assert from_file.certificate_pem == from_file.key_pem == CHAIN + KEY
    inline = accepted(
        security__protocol="SSL",
        ssl__keystore__type="PEM",
        ssl__keystore__certificate__chain=CHAIN,
        ssl__keystore__key=LOCKED,
        ssl__key__password="pw",
    )
    assert (inline.certificate_pem, inline.key_pem, inline.key_password) == (
        CHAIN.strip(), LOCKED.strip(), "pw",
    )  # fmt: skip


def test_secrets_are_in_no_repr_and_survive_the_way_to_an_executor():
    found = accepted(
        security__protocol="SASL_SSL",
        sasl__mechanism="PLAIN",
        sasl__jaas__config=PLAIN_JAAS,
        ssl__keystore__type="PEM",
        ssl__keystore__location="/locked.pem",
        ssl__key__password="hunter3",
    )
    for secret in ("hunter2", "hunter3", "PRIVATE"):
        assert secret not in repr(found)
    carried = json.loads(json.dumps(found.to_dict()))
    assert SecuritySettings.from_dict(carried) == found


def test_all_errors_come_at_once_and_none_shows_a_secret():
    errors = refused(
        security__protocol="SASL_SLL",
        sasl__mechanism="GSSAPI",
        sasl__jaas__config=SCRAM_JAAS,
        sasl__kerberos__service__name="kafka",
        ssl__cipher__suites="TLS_X",
        ssl__truststore__locaton="/ca.pem",
    )
    assert errors == {
        "security.protocol": "security.protocol: SASL_SLL is unknown; "
        "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        "sasl.mechanism": "sasl.mechanism: GSSAPI is not supported; "
        "Kerberos (GSSAPI) is not supported: use PLAIN, SCRAM, OAUTHBEARER or TLS certificates; "
        "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        "sasl.kerberos.service.name": "sasl.kerberos.service.name: it is not supported; "
        "Kerberos (GSSAPI) is not supported: use PLAIN, SCRAM, OAUTHBEARER or TLS certificates",
        "ssl.cipher.suites": "ssl.cipher.suites: it is not supported; "
        "remove this setting: it configures Java's TLS, but this client uses the system's OpenSSL",
        "ssl.truststore.locaton": "ssl.truststore.locaton: no such setting; "
        "did you mean ssl.truststore.location?",
    }
    assert "hunter2" not in repr(errors)


@pytest.mark.parametrize(
    ("properties", "key", "text"),
    [
        (
            {"sasl__mechanism": "PLAIN"},
            "sasl.jaas.config",
            "missing; write org.apache.kafka.common",
        ),
        ({}, "sasl.mechanism", "GSSAPI (Java's default) is not supported"),
        (
            {"sasl__mechanism": "AWS_MSK_IAM"},
            "sasl.mechanism",
            "AWS_MSK_IAM is not supported; Amazon MSK IAM is not supported: MSK also supports "
            "SCRAM-SHA-512 (port 9096) and client certificates",
        ),
        (
            {
                "sasl__mechanism": "PLAIN",
                "sasl__jaas__config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            },
            "sasl.jaas.config",
            "IAMLoginModule does not belong to this sasl.mechanism; Amazon MSK IAM",
        ),
        (
            {
                "sasl__mechanism": "PLAIN",
                "sasl__jaas__config": PLAIN_JAAS,
                "sasl__client__callback__handler__class": (
                    "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
                ),
            },
            "sasl.client.callback.handler.class",
            "it is not supported; Amazon MSK IAM is not supported: MSK also supports",
        ),
        (
            {
                "sasl__mechanism": "PLAIN",
                "sasl__jaas__config": PLAIN_JAAS,
                "sasl__oauthbearer__scope": "kafka",
            },
            "sasl.oauthbearer.scope",
            "this setting has no effect with PLAIN; remove it, or set sasl.mechanism=OAUTHBEARER",
        ),
        (
            {"sasl__mechanism": "PLAIN", "sasl__jaas__config": SCRAM_JAAS},
            "sasl.jaas.config",
            "ScramLoginModule does not belong to this sasl.mechanism; write",
        ),
        (
            {"sasl__mechanism": "PLAIN", "sasl__jaas__config": "x.PlainLoginModule required;"},
            "sasl.jaas.config",
            "username and password missing",
        ),
        (
            {
                "sasl__mechanism": "SCRAM-SHA-256",
                "sasl__jaas__config": SCRAM_JAAS.replace(";", " tokenauth=true;"),
            },
            "sasl.jaas.config",
            "option tokenauth is not supported",
        ),
        (
            {"sasl__mechanism": "PLAIN", "sasl__jaas__config": PLAIN_JAAS[:-1]},
            "sasl.jaas.config",
            "the entry must end with a semicolon",
        ),
    ],
)
def test_sasl_errors(properties, key, text):
    assert text in refused(security__protocol="SASL_PLAINTEXT", **properties)[key]


@pytest.mark.parametrize(
    ("properties", "key", "text"),
    [
        ({"ssl__truststore__type": "PEM"}, "ssl.truststore.location", "it is missing"),
        (
            {"ssl__truststore__type": "PEM", "ssl__truststore__location": "/none"},
            "ssl.truststore.location",
            "/none cannot be read: No such file",
        ),
        (
            {"ssl__truststore__type": "PEM", "ssl__truststore__location": "/binary"},
            "ssl.truststore.location",
            "/binary is not a text file",
        ),
        (
            {"ssl__truststore__certificates": "/ca.pem"},
            "ssl.truststore.certificates",
            "it contains no certificate",
        ),
        (
            {"ssl__truststore__certificates": CA, "ssl__truststore__type": "JKS"},
            "ssl.truststore.type",
            "the type is JKS, but ssl.truststore.certificates is set; set the type to PEM",
        ),
        (
            {"ssl__keystore__type": "PEM", "ssl__keystore__location": "/chain.pem"},
            "ssl.keystore.location",
            "it contains no private key",
        ),
        (
            {"ssl__keystore__type": "PEM", "ssl__keystore__location": "/locked.pem"},
            "ssl.key.password",
            "the key in ssl.keystore.location is encrypted",
        ),
        ({"ssl__keystore__key": KEY}, "ssl.keystore.certificate.chain", "go together"),
        (
            {"ssl__endpoint__identification__algorithm": "ldap"},
            "ssl.endpoint.identification.algorithm",
            "ldap is unknown; https, or empty",
        ),
    ],
)
def test_tls_errors(properties, key, text):
    assert text in refused(security__protocol="SSL", **properties)[key]


def test_security_that_a_forgotten_protocol_would_ignore_is_an_error():
    errors = refused(sasl__mechanism="PLAIN", sasl__jaas__config=PLAIN_JAAS)
    assert set(errors) == {"sasl.mechanism", "sasl.jaas.config"}
    assert "set security.protocol" in errors["sasl.mechanism"]
    assert accepted(security__protocol="PLAINTEXT", sasl__mechanism="PLAIN").protocol == "PLAINTEXT"
