from __future__ import annotations

import pytest

from mm2.copier.spark import settings

BASE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows: [{from: a, to: b}]
"""


def test_without_a_section_everything_is_local(read):
    spark = read(BASE).spark
    assert (spark.engine, spark.master, spark.app_name) == ("spark", "local[512,1]", "mm2")
    assert spark.is_local
    assert spark.conf == {}
    assert spark.ui is False
    assert not spark.allow_insecure_spark


def test_every_key_arrives(read):
    found = read(
        BASE
        + """
spark:
  engine: inline
  master: spark://m:7077
  app.name: mirror
  driver.host: me.example
  driver.bindAddress: 0.0.0.0
  driver.port: 7001
  driver.blockManager.port: 7002
  control.host: me.example
  control.port: 7003
  python: /usr/bin/python3
  ui: true
  allow.insecure.spark: true
  conf:
    spark.cores.max: 4
    spark.authenticate.secret: hunter2
""",
    )
    spark = found.spark
    assert spark.engine == "inline"
    assert spark.master == "spark://m:7077"
    assert spark.conf == {
        "spark.cores.max": "4",
        "spark.authenticate.secret": "hunter2",
        "spark.driver.host": "me.example",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.port": "7001",
        "spark.driver.blockManager.port": "7002",
    }
    assert (spark.control_host, spark.control_port) == ("me.example", 7003)
    assert spark.python == "/usr/bin/python3"
    assert spark.ui is True
    assert spark.allow_insecure_spark
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(found.effective)


@pytest.mark.parametrize(
    ("master", "good"),
    [
        ("local", True),
        ("local[4]", True),
        ("local[*]", True),
        ("local[*,1]", True),
        ("local[4,3]", False),
        ("spark://a:7077,b:7077", True),
        ("k8s://https://k:443", True),
        ("yarn", True),
        ("mesos://x", False),
        ("a:7077", False),
    ],
)
def test_masters(read, wrong, master, good):
    text = f"{BASE}spark: {{master: '{master}'}}\n"
    if good:
        assert read(text).spark.master == master
    else:
        (problem,) = wrong(text)
        assert problem.key == "spark.master"


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ("spark.task.maxFailures: 4", "mm2 restarts failed copy processes"),
        ("spark.master: yarn", "use the key master"),
        ("spark.ui.enabled: true", "use the key ui"),
        ("cores.max: 4", "names begin with spark."),
        ("spark.cores.max: [4]", "must be a single value"),
    ],
)
def test_spark_settings_that_are_not_taken(wrong, conf, words):
    (problem,) = wrong(f"{BASE}spark:\n  conf:\n    {conf}\n")
    assert problem.line == 6
    assert words in problem.text


@pytest.mark.parametrize("name", sorted(settings.FIXED_PROPERTIES))
def test_what_the_engine_fixes_is_refused_rather_than_overridden(wrong, name):
    (problem,) = wrong(f"{BASE}spark: {{conf: {{{name}: x}}}}\n")
    assert "cannot be set" in problem.text


def test_every_mistake_is_told_at_once_with_its_line(wrong):
    text = "  master: yarn\n  conf:\n    spark.speculation: true\n    spark.authenticate: false\n"
    found = wrong(f"{BASE}spark:\n{text}")
    assert [(each.line, each.key) for each in found] == [
        (7, "spark.conf.spark.speculation"),
        (8, "spark.conf.spark.authenticate"),
    ]


def test_an_unknown_key_names_the_nearest(wrong):
    (problem,) = wrong(f"{BASE}spark: {{masters: yarn}}\n")
    assert (problem.key, problem.nearest) == ("spark.masters", "master")


@pytest.mark.parametrize("name", ["spark.authenticate", "spark.network.crypto.enabled"])
def test_security_of_a_cluster_is_not_switched_off_by_the_way(read, wrong, name):
    spark = f"master: yarn, conf: {{{name}: false}}"
    (problem,) = wrong(f"{BASE}spark: {{{spark}}}\n")
    assert problem.key == f"spark.conf.{name}"
    for way in ("allow.insecure.spark: true", "engine: inline"):
        assert read(f"{BASE}spark: {{{spark}, {way}}}\n").spark.conf == {name: "false"}


def test_nobody_switches_off_that_other_users_are_kept_from_a_local_driver(read, wrong):
    conf = "conf: {spark.authenticate: false}"
    (problem,) = wrong(f"{BASE}spark: {{{conf}}}\n")
    local = "spark on local[512,1]"
    assert problem.text == f"would leave the connections of {local} unauthenticated or unencrypted"
    assert read(f"{BASE}spark: {{{conf}, allow.insecure.spark: true}}\n").spark.is_local
    assert read(f"{BASE}spark: {{conf: {{spark.network.crypto.enabled: false}}}}\n").spark
