from __future__ import annotations

import pytest

from connect_runtime.config import config_errors
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock

WALL_MS = SystemClock().wall_ms()
AUTHORITY = CertificateAuthority.create("ca", wall_ms=WALL_MS)
LEAF, OTHER = (AUTHORITY.issue_certificate("mm2", hosts=(), wall_ms=WALL_MS) for _ in range(2))
FLOWS = "\nflows: [{from: a, to: b}]\n"


def clusters(properties: str) -> str:
    """Cluster `a` with these lines, from line 3 on, and a plain `b`."""
    lines = "\n".join(f"    {line}" for line in properties.splitlines())
    return f"clusters:\n  a:\n{lines}\n  b: {{bootstrap.servers: 'b:9092'}}{FLOWS}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:9092", ("a:9092",)),
        ("a:9092, b.example:1", ("a:9092", "b.example:1")),
        ("[a:9092, 'b:2']", ("a:9092", "b:2")),
        ("'[::1]:9092'", ("[::1]:9092",)),
        ("${env:SERVERS}", ("x:1", "y:2")),
    ],
)
def test_bootstrap_servers(read, given, expected):
    found = read(clusters(f"bootstrap.servers: {given}"), {"SERVERS": "x:1,y:2"})
    assert found.clusters["a"].bootstrap_servers == expected
    assert found.clusters["a"].properties["bootstrap.servers"].startswith(expected[0])


@pytest.mark.parametrize(
    "given", ["a", "'a:'", ":9092", "a:0", "a:70000", "'a:9,'", "'http://a:1'", "''"]
)
def test_servers_that_are_none(wrong, given):
    (problem,) = wrong(clusters(f"bootstrap.servers: {given}"))
    assert (problem.line, problem.key) == (3, "clusters.a.bootstrap.servers")
    assert problem.allowed == "host:port, several separated by commas"


def test_bootstrap_servers_are_required(wrong):
    (problem,) = wrong(clusters("request.timeout.ms: 1000"))
    assert problem.text == "bootstrap.servers is missing"
    assert problem.key == "clusters.a"


def test_an_unknown_property_names_the_nearest(wrong):
    (problem,) = wrong(clusters("bootstrap.servers: a:1\nfetch.min.byte: 1"))
    assert (problem.line, problem.text) == (4, "is not a known client property")
    assert problem.nearest == "fetch.min.bytes"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("linger.ms: 5", "copied unchanged"),
        ("acks: all", "mm2 sets it"),
        ("group.id: x", "without a consumer group"),
        ("interceptor.classes: x", "Java classes"),
        ("auto.offset.reset: latest", "set the key start"),
        ("consumer.fetch.min.bytes: x", "is not allowed"),
        ("producer.linger.ms: 5", "copied unchanged"),
        ("admin.fetch.min.byte: 5", "is not a known client property"),
        ("fetch.min.bytes: many", "is not allowed"),
        ("fetch.min.bytes: [1]", "must be a single value"),
        ("fetch.min.bytes: {a: 1}", "must be a single value"),
        ("fetch.min.bytes:", "has no value"),
        ("fetch.min.bytes: ${env:NOPE}", "environment variable 'NOPE' is not set"),
    ],
)
def test_properties_that_are_not_taken_say_why(wrong, line, words):
    (problem,) = wrong(clusters(f"bootstrap.servers: a:1\n{line}"))
    assert problem.line == 4
    assert words in problem.text


def test_security_is_judged_as_a_whole(wrong, read, tmp_path):
    (problem,) = wrong(clusters("bootstrap.servers: a:1\nsecurity.protocol: SLL"))
    assert (problem.line, problem.key) == (4, "clusters.a.security.protocol")
    found = read(
        clusters(
            "bootstrap.servers: a:1\n"
            "security.protocol: SASL_PLAINTEXT\n"
            "sasl.mechanism: PLAIN\n"
            "sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="mm2" password="${env:PW}";'
        ),
        {"PW": "hunter2"},
    )
    security = found.clusters["a"].security
    assert (security.protocol, security.username, security.password) == (
        "SASL_PLAINTEXT",
        "mm2",
        "hunter2",
    )
    assert found.secret_environment == {"PW"}
    assert "hunter2" not in repr(found)


def test_pem_files_are_found_beside_the_configuration(read, wrong, tmp_path):
    text = clusters(
        "bootstrap.servers: a:1\nsecurity.protocol: SSL\n"
        "ssl.truststore.type: PEM\nssl.truststore.location: ca.pem"
    )
    (problem,) = wrong(text)
    assert (problem.line, problem.key) == (6, "clusters.a.ssl.truststore.location")
    (tmp_path / "ca.pem").write_text(AUTHORITY.certificate_pem.decode())
    assert "BEGIN" in (read(text).clusters["a"].security.ca_pem or "")
    (problem,) = wrong(text.replace("ca.pem", '"ca\\0.pem"'))
    assert problem.line == 6


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        ("-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n", LEAF.key_pem.decode()),
        (LEAF.certificate_pem.decode(), "-----BEGIN PRIVATE KEY-----\nMII=\n"),
        (LEAF.certificate_pem.decode(), OTHER.key_pem.decode()),
    ],
    ids=["certificate", "key", "of another"],
)
def test_certificates_that_nobody_could_use_are_told_before_anything_starts(
    read, wrong, tmp_path, certificate, key
):
    text = clusters(
        "bootstrap.servers: a:1\nsecurity.protocol: SSL\n"
        "ssl.truststore.type: PEM\nssl.truststore.location: ca.pem\n"
        "ssl.keystore.type: PEM\nssl.keystore.location: own.pem"
    )
    broken = AUTHORITY.certificate_pem.decode().replace("\nM", "\nx", 1)
    (tmp_path / "ca.pem").write_text(broken)
    (tmp_path / "own.pem").write_text(certificate + key)
    trust, own = wrong(text)
    assert (trust.line, trust.key) == (6, "clusters.a.ssl.truststore.location")
    assert (own.line, own.key) == (8, "clusters.a.ssl.keystore.location")
    assert "certificate, the key and ssl.key.password match" in own.text
    assert "MII" not in own.describe("c.yaml")
    (tmp_path / "ca.pem").write_text(AUTHORITY.certificate_pem.decode())
    (tmp_path / "own.pem").write_bytes(LEAF.certificate_pem + LEAF.key_pem)
    assert read(text).clusters["a"].security.key_pem


def test_the_authority_of_an_issuer_is_looked_at_too(wrong, tmp_path):
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMII=\n")
    (problem,) = wrong(
        clusters(
            "bootstrap.servers: a:1\nsecurity.protocol: SASL_PLAINTEXT\n"
            "sasl.mechanism: OAUTHBEARER\n"
            "sasl.oauthbearer.token.endpoint.url: https://id/token\n"
            "sasl.jaas.config: x.OAuthBearerLoginModule required clientId=a clientSecret=hunter2 "
            "ssl.truststore.type=PEM ssl.truststore.location=ca.pem;"
        )
    )
    assert problem.key == "clusters.a.sasl.jaas.config"
    assert problem.text.startswith("its option ssl.truststore: ")


@pytest.mark.parametrize(
    ("url", "warned"),
    [("http://id.example.com/token", True), ("https://id/token", False), ("http://[::1]/t", False)],
)
def test_a_secret_that_would_travel_in_clear_is_warned_of_once(read, url, warned):
    text = clusters(
        "bootstrap.servers: a:1\nsecurity.protocol: SASL_SSL\nsasl.mechanism: OAUTHBEARER\n"
        f'sasl.oauthbearer.token.endpoint.url: "{url}"\n'
        "sasl.jaas.config: x.OAuthBearerLoginModule required clientId=a clientSecret=hunter2;\n"
        "consumer.fetch.min.bytes: 1"
    )
    found = read(text.replace("to: b}", "to: b, source.admin.request.timeout.ms: 1000}"))
    lines = [each for each in found.format_warnings() if "is a plaintext secret" not in each]
    assert len(lines) == warned
    for line in lines:
        assert ":6: " in line
        assert "clusters.a.sasl.oauthbearer.token.endpoint.url" in line
        assert "unencrypted" in line
        assert "hunter2" not in line


def test_mistakes_beside_an_unreadable_security_value_are_still_told(wrong):
    found = wrong(
        clusters(
            "bootstrap.servers: a:1\nsecurity.protocol: SASL_SSL\n"
            "sasl.jaas.config: ${env:NOPE}\nssl.bananas: 1"
        )
    )
    assert [problem.line for problem in found] == [5, 6]


def test_problems_never_show_a_value_that_came_from_a_provider(wrong):
    environment = {"SECRET": "hunter2"}
    for line in (
        "fetch.min.bytes: ${env:SECRET}",
        "security.protocol: ${env:SECRET}",
        "sasl.mechanism: ${env:SECRET}\n    security.protocol: SASL_SSL",
    ):
        for problem in wrong(clusters(f"bootstrap.servers: a:1\n{line}"), environment):
            assert "hunter2" not in problem.describe("c.yaml").lower()
    (problem,) = wrong(clusters("bootstrap.servers: a:1\nssl.key.password: x"))
    assert "connections are PLAINTEXT" in problem.text
    (problem,) = wrong(clusters("bootstrap.servers: ${env:SECRET}"), environment)
    assert "hunter2" not in problem.describe("c.yaml")


def test_a_password_in_the_file_itself_is_hidden_all_the_same(read):
    found = read(
        clusters(
            "bootstrap.servers: a:1\nsecurity.protocol: SASL_PLAINTEXT\nsasl.mechanism: PLAIN\n"
            "sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="mm2" password="hunter2";'
        )
    )
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(found.effective)
    assert "hunter2" in found.clusters["a"].properties["sasl.jaas.config"]


@pytest.mark.parametrize("alias", ["we st", "a->b", "''", "a/b", "é"])
def test_an_alias_has_to_fit_into_topic_names(wrong, alias):
    found = wrong(f"clusters:\n  {alias}: {{bootstrap.servers: 'a:1'}}\nflows: []\n")
    assert found[0].text == "is not a valid alias"


def test_a_cluster_is_a_section(wrong):
    found = wrong("clusters: {a: hello, b: {bootstrap.servers: 'b:1'}}" + FLOWS)
    assert found[0].text == "must be a section of keys, not a single value"


def test_properties_of_one_kind_of_client(read):
    found = read(
        clusters(
            "bootstrap.servers: a:1\nfetch.min.bytes: 1\nconsumer.fetch.min.bytes: 2\n"
            "admin.bootstrap.servers: c:1\nadmin.request.timeout.ms: ${env:T}"
        ),
        {"T": "7"},
    )
    clients = found.get_clients(found.flows[0])
    assert found.clusters["a"].properties["fetch.min.bytes"] == "1"
    assert clients.consumer.properties["fetch.min.bytes"] == "2"
    assert clients.consumer.bootstrap_servers == ("a:1",)
    assert clients.source_admin.bootstrap_servers == ("c:1",)
    assert clients.source_admin.properties["request.timeout.ms"] == "7"
    assert clients.producer == clients.target_admin == found.clusters["b"]
    assert found.effective["clusters"]["a"] == {
        "bootstrap.servers": "a:1",
        "fetch.min.bytes": "1",
        "consumer.fetch.min.bytes": "2",
        "admin.bootstrap.servers": "c:1",
        "admin.request.timeout.ms": config_errors.HIDDEN_VALUE,
    }


def test_a_mistake_of_one_kind_of_client_is_told_once(wrong):
    (problem,) = wrong(clusters("bootstrap.servers: a:1\nconsumer.security.protocol: SLL"))
    assert (problem.line, problem.key) == (4, "clusters.a.consumer.security.protocol")


@pytest.mark.parametrize(
    ("properties", "warned"),
    [
        (
            "security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, LOGIN",
            "clusters.a.security.protocol: SASL_PLAINTEXT with PLAIN sends the password "
            "unencrypted over the network: use SASL_SSL",
        ),
        ("security.protocol: SASL_SSL, sasl.mechanism: PLAIN, LOGIN", None),
        (
            "security.protocol: SSL, ssl.endpoint.identification.algorithm: ''",
            "clusters.a.ssl.endpoint.identification.algorithm: is empty, so broker host names are "
            "not verified",
        ),
        ("security.protocol: SSL", None),
        ("security.protocol: PLAINTEXT, ssl.endpoint.identification.algorithm: ''", None),
    ],
)
def test_what_gives_passwords_or_connections_away_is_warned_of_once(read, properties, warned):
    login = (
        "sasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="hunter2";\''
    )
    text = f"""
clusters:
  a: {{bootstrap.servers: 'a:1', {properties.replace("LOGIN", login)}, consumer.fetch.min.bytes: 1}}
  b: {{bootstrap.servers: 'b:1'}}
flows: [{{from: a, to: b}}]
"""
    lines = [each for each in read(text).format_warnings() if "is a plaintext secret" not in each]
    assert len(lines) == (warned is not None)
    for line in lines:
        assert warned in line
        assert "hunter2" not in line
