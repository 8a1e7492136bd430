from __future__ import annotations

import json

import pytest

from connect_runtime.wire.codec import oauth_settings, security_settings, tls_settings

CA = "-----BEGIN CERTIFICATE-----\nCA\n-----END CERTIFICATE-----\n"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = "https://id.example.com:8443/realms/kafka/token"
JAAS = f'{MODULE} clientId="mm2" clientSecret="s3cret" scope="kafka";'
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def read_text(path: str) -> str:
    if path != "/issuer.pem":
        raise FileNotFoundError(2, "No such file or directory", path)
    return CA


def no_store(path: str, password: str) -> tls_settings.Store:
    raise AssertionError(path)


def parse(*, jaas: str = JAAS, url: str = URL, **properties: str) -> security_settings.Parsed:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas,
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    given |= {f"sasl.{key.replace('__', '.')}": value for key, value in properties.items()}
    files = tls_settings.Files(text=read_text, store=no_store)
    return security_settings.parse(given, files=files)


def accepted(**properties: str) -> oauth_settings.OAuth:
    parsed = parse(**properties)
    assert parsed.errors == ()
    assert parsed.security is not None
    assert parsed.security.oauth is not None
    return parsed.security.oauth


def refused(**properties: str) -> dict[str, str]:
    parsed = parse(**properties)
    assert parsed.security is None
    for error in parsed.errors:
        assert "s3cret" not in str(error)
    return {error.key: str(error) for error in parsed.errors}


def test_the_spelling_of_kafka_3_is_read():
    found = accepted(login__callback__handler__class=HANDLER.replace("r.O", "r.secured.O"))
    assert (found.endpoint, found.client_id, found.client_secret) == (URL, "mm2", "s3cret")
    assert (found.scope, found.urlencode, found.ca_pem) == ("kafka", False, None)
    times = (found.connect_timeout_s, found.read_timeout_s, found.retry_s, found.retry_max_s)
    assert times == (10.0, 10.0, 0.1, 10.0)


def test_properties_win_over_the_login_modules_options():
    found = accepted(
        oauthbearer__client__credentials__client__id="other",
        oauthbearer__client__credentials__client__secret="thing",
        oauthbearer__scope="wide",
    )
    assert (found.client_id, found.client_secret, found.scope) == ("other", "thing", "wide")


def test_properties_alone_need_no_login_module():
    found = accepted(
        jaas="",
        login__callback__handler__class=HANDLER,
        oauthbearer__client__credentials__client__id="mm2",
        oauthbearer__client__credentials__client__secret="s3cret",
        oauthbearer__jwt__retriever__class=(
            "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever"
        ),
    )
    assert (found.client_id, found.scope) == ("mm2", "")


def test_extensions_and_the_endpoints_authorities_stand_in_the_login_module():
    jaas = (
        f'{MODULE} clientId="mm2" clientSecret="s3cret" extension_logicalCluster="lkc-1" '
        'ssl.truststore.type="PEM" ssl.truststore.location="/issuer.pem";'
    )
    found = accepted(jaas=jaas)
    assert found.extensions == {"logicalCluster": "lkc-1"}
    assert found.ca_pem == CA


def test_times_are_javas_in_milliseconds_and_seconds():
    found = accepted(
        login__connect__timeout__ms="1500",
        login__read__timeout__ms="2500",
        login__retry__backoff__ms="200",
        login__retry__backoff__max__ms="100",
        login__refresh__window__factor="0.5",
        login__refresh__window__jitter="0",
        login__refresh__min__period__seconds="1",
        login__refresh__buffer__seconds="2",
        oauthbearer__header__urlencode="true",
    )
    assert (found.connect_timeout_s, found.read_timeout_s) == (1.5, 2.5)
    assert (found.retry_s, found.retry_max_s) == (0.2, 0.2)
    assert (found.refresh_factor, found.refresh_jitter) == (0.5, 0.0)
    assert (found.refresh_min_period_s, found.refresh_buffer_s) == (1, 2)
    assert found.urlencode


@pytest.mark.parametrize(
    ("url", "in_clear"),
    [
        ("https://id/token", False),
        ("http://id/token", True),
        ("http://10.0.0.1:8080/token", True),
        ("HTTP://ID/token", True),
        ("http://localhost:8080/token", False),
        ("http://127.0.0.9/token", False),
        ("http://[::1]:8080/token", False),
        ("http://localhost.example.com/token", True),
    ],
)
def test_whether_a_secret_would_travel_in_clear(url, in_clear):
    assert accepted(url=url).in_clear == in_clear


def test_the_secret_is_in_no_repr_and_survives_the_way_to_an_executor():
    security = parse().security
    assert security is not None
    assert "s3cret" not in repr(security)
    assert security.username == "mm2"
    carried = json.loads(json.dumps(security.to_dict()))
    assert security_settings.Security.from_dict(carried) == security


@pytest.mark.parametrize(
    ("properties", "key", "text"),
    [
        ({"url": ""}, "sasl.oauthbearer.token.endpoint.url", "it is missing"),
        (
            {"url": "file:///token"},
            "sasl.oauthbearer.token.endpoint.url",
            "it is no http or https address; the issuer's token endpoint",
        ),
        (
            {"url": "https://u:s3cret@id/token"},
            "sasl.oauthbearer.token.endpoint.url",
            "it holds credentials",
        ),
        (
            {"jaas": f'{MODULE} clientId="mm2";'},
            "sasl.oauthbearer.client.credentials.client.secret",
            "it, and clientSecret in sasl.jaas.config, are missing; set it, or write",
        ),
        (
            {"jaas": JAAS.replace("scope", "unsecuredLoginStringClaim_sub")},
            "sasl.jaas.config",
            "its option unsecuredLoginStringClaim_sub is not supported",
        ),
        (
            {"jaas": JAAS.replace("scope", "extension_auth")},
            "sasl.jaas.config",
            "its option extension_auth is malformed",
        ),
        (
            {"jaas": JAAS.replace("scope=", "ssl.truststore.type=PEM ssl.truststore.location=")},
            "sasl.jaas.config",
            "its option ssl.truststore.location: kafka cannot be read: No such file",
        ),
        (
            {"jaas": JAAS.replace("scope=", "ssl.keystore.location=")},
            "sasl.jaas.config",
            "its option ssl.keystore.location is not supported",
        ),
        (
            {"jaas": "x.PlainLoginModule required;"}
            | {
                "oauthbearer__client__credentials__client__id": "a",
                "oauthbearer__client__credentials__client__secret": "b",
            },
            "sasl.jaas.config",
            "PlainLoginModule does not belong to this sasl.mechanism",
        ),
        (
            {
                "login__callback__handler__class": (
                    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
                )
            },
            "sasl.login.callback.handler.class",
            "is not supported; Amazon MSK's IAM is not supported: MSK also takes SCRAM",
        ),
        (
            {"login__callback__handler__class": "com.example.Handler"},
            "sasl.login.callback.handler.class",
            "com.example.Handler is not supported; remove it",
        ),
        (
            {"oauthbearer__jwt__retriever__class": "com.example.Retriever"},
            "sasl.oauthbearer.jwt.retriever.class",
            "one of org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        ),
        (
            {"oauthbearer__client__id": "mm2"},
            "sasl.oauthbearer.client.id",
            "it is not supported; write sasl.oauthbearer.client.credentials.client.id",
        ),
        (
            {"oauthbearer__assertion__file": "/a.jwt"},
            "sasl.oauthbearer.assertion.file",
            "only the client credentials grant",
        ),
        (
            {"oauthbearer__jwks__endpoint__url": "https://id/keys"},
            "sasl.oauthbearer.jwks.endpoint.url",
            "remove it: brokers judge tokens",
        ),
        (
            {"login__refresh__window__factor": "0.1"},
            "sasl.login.refresh.window.factor",
            "0.1 is not allowed; a number from 0.5 to 1",
        ),
        (
            {"login__read__timeout__ms": "soon"},
            "sasl.login.read.timeout.ms",
            "soon is not allowed; a whole number from 1",
        ),
    ],
)
def test_what_is_wrong_is_told_by_its_key(properties, key, text):
    errors = refused(**properties)
    assert set(errors) == {key}
    assert text in errors[key]
