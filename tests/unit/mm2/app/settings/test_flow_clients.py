from __future__ import annotations

BASE = """clusters:
  a: {bootstrap.servers: 'a:1', consumer.fetch.min.bytes: 2, fetch.max.bytes: 3}
  b: {bootstrap.servers: 'b:1', producer.request.timeout.ms: 4}
"""


def test_a_flow_has_the_last_word_on_its_clients(read):
    found = read(
        BASE
        + """
defaults: {source.consumer.fetch.min.bytes: 5, source.consumer.fetch.max.wait.ms: 6}
flows:
- {from: a, to: b, source.consumer.fetch.min.bytes: 7, producer.override.bootstrap.servers: 'x:1'}
- {from: b, to: a, target.admin.request.timeout.ms: 8}
"""
    )
    there, back = map(found.clients_of, found.flows)
    assert {name: there.consumer.properties[name] for name in there.consumer.properties} == {
        "bootstrap.servers": "a:1",
        "fetch.max.bytes": "3",
        "fetch.min.bytes": "7",
        "fetch.max.wait.ms": "6",
    }
    assert there.producer.bootstrap_servers == ("x:1",)
    assert there.producer.properties["request.timeout.ms"] == "4"
    assert back.consumer.properties["fetch.min.bytes"] == "5"
    assert back.target_admin.properties["request.timeout.ms"] == "8"
    assert there.target_admin == found.clusters["b"]
    shown = found.effective["flows"][0]
    assert shown["source.consumer.fetch.min.bytes"] == "7"
    assert shown["source.consumer.fetch.max.wait.ms"] == "6"


def test_mistakes_in_defaults_are_told_once_where_they_stand(wrong):
    (problem,) = wrong(
        BASE
        + """defaults: {source.consumer.fetch.min.bytes: x}
flows: [{from: a, to: b}, {from: b, to: a}]
"""
    )
    assert (problem.line, problem.key) == (4, "defaults.source.consumer.fetch.min.bytes")
    (problem,) = wrong(BASE + "flows: [{from: a, to: b, source.admin.acks: all}]\n")
    assert problem.key == "flows[0].source.admin.acks"
    assert "mm2 sets it itself" in problem.text


def test_secrets_of_a_flow_are_hidden(read):
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    found = read(
        BASE.replace(
            "'a:1',",
            "'a:1', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.jaas.config: "
            f'\'{login} username="u" password="first";\',',
        )
        + f"""flows:
- from: a
  to: b
  source.consumer.sasl.jaas.config: '{login} username="v" password="omega-pw";'
"""
    )
    clients = found.clients_of(found.flows[0])
    assert (clients.consumer.security.username, clients.source_admin.security.username) == (
        "v",
        "u",
    )
    assert "omega-pw" not in str(found.effective) + repr(found)
