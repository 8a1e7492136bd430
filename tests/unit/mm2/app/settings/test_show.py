from __future__ import annotations

import pathlib

from mm2.app.settings import load, show

TEXT = r"""
clusters:
  a: {bootstrap.servers: "a:1, a:2"}
  b: {bootstrap.servers: "b:1"}
flows:
- {from: a, to: b, topics: 'x, y{1}', tasks.max: 3, start: 2026-01-31T08:00:00Z}
- {from: b, to: a, topics.exclude: []}
spark: {conf: {spark.cores.max: 2}}
metrics: {port: 0}
"""


def test_what_is_shown_has_the_defaults(read):
    text = show.show(read(TEXT))
    assert "replication.factor: 2\n" in text
    assert "master: local[512,1]\n" in text
    assert "port: 0\n" in text


def test_what_is_shown_reads_back_as_the_same_settings(read):
    found = read(TEXT)
    again = read(show.show(found))
    assert again == found


def test_secrets_are_hidden(read):
    text = TEXT.replace("metrics: {port: 0}", "metrics: {host: '${env:HOST}'}").replace(
        'bootstrap.servers: "b:1"',
        "bootstrap.servers: 'b:1', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, "
        "sasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="hunter2";\'',
    )
    shown = show.show(read(text, {"HOST": "secret-host"}))
    assert "hunter2" not in shown
    assert "secret-host" not in shown
    assert "host: '[hidden]'" in shown
    assert "sasl.mechanism: PLAIN" in shown


def test_the_sample_shows(tmp_path):
    sample = pathlib.Path(__file__).parents[5] / "deploy" / "clusters.yaml"
    found = load.load(sample, environment={})
    assert "from: east" in show.show(found)
