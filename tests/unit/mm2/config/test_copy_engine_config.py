"""Where the data pipeline runs: the worker's properties say it, connectors override little."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from mm2.config import copy_engine_config, mirror_connector_config
from mm2.config.copy_engine_config import EngineSettings


def of_worker(props):
    return copy_engine_config.parse_engine_settings({}, worker=props)


def test_a_configuration_without_a_word_says_nothing():
    assert copy_engine_config.parse_engine_settings({"name": "mirror", "throttle": "1MB"}) is None


def test_every_key_is_understood():
    found = of_worker(
        {
            "mm2.engine": "spark",
            "mm2.spark.master": "spark://one:7077",
            "mm2.spark.app.name": "mirrors",
            "mm2.spark.ui": "TRUE",
            "mm2.spark.control.host": "here",
            "mm2.spark.control.port": "1234",
            "mm2.spark.python": "/usr/bin/python3",
            "mm2.spark.allow.insecure.spark": "true",
            "mm2.spark.driver.host": "there",
            "mm2.spark.driver.port": "4321",
            "mm2.spark.conf.spark.cores.max": "2",
        }
    )
    assert found == EngineSettings(
        master="spark://one:7077",
        app_name="mirrors",
        ui=True,
        control_host="here",
        control_port=1234,
        python="/usr/bin/python3",
        allow_insecure_spark=True,
        conf={
            "spark.driver.host": "there",
            "spark.driver.port": "4321",
            "spark.cores.max": "2",
        },
    )
    assert not found.is_local
    assert found.display_name == "spark on spark://one:7077"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("master", "mesos://x", "spark://host:port"),
        ("control.port", "99999", "from 0 to 65535"),
        ("ui", "yes", "true or false"),
        ("mastr", "local", "mm2.spark.mastr is not a known key"),
        ("conf.spark.task.maxFailures", "4", "cannot be set"),
        ("conf.cores.max", "4", "begin with spark."),
    ],
)
def test_what_is_no_setting_is_refused_with_its_key(key, value, words):
    with pytest.raises(ConfigError, match=words) as raised:
        of_worker({f"mm2.spark.{key}": value})
    assert f"mm2.spark.{key}" in str(raised.value)


def test_an_open_cluster_is_refused():
    props = {
        "mm2.spark.master": "spark://one:7077",
        "mm2.spark.conf.spark.authenticate": "false",
    }
    with pytest.raises(ConfigError, match="unauthenticated or unencrypted"):
        of_worker(props)
    assert of_worker({**props, "mm2.spark.allow.insecure.spark": "true"}) is not None
    with pytest.raises(ConfigError, match=r"connections of spark on local\[2\] unauth"):
        of_worker({**props, "mm2.spark.master": "local[2]"})
    assert of_worker({**props, "mm2.engine": "inline"}) is not None
    unencrypted = {"mm2.spark.conf.spark.network.crypto.enabled": "false"}
    assert of_worker({**unencrypted, "mm2.spark.master": "local[2]"}) is not None


def test_differences_are_told_by_keys_and_never_by_values():
    one = EngineSettings(conf={"spark.a": "secret"}, ui=True)
    other = EngineSettings(engine="inline", conf={"spark.a": "x", "spark.b": "y"})
    assert copy_engine_config.diff_engine_settings(one, other) == [
        "mm2.engine",
        "mm2.spark.ui",
        "mm2.spark.conf.spark.a",
        "mm2.spark.conf.spark.b",
    ]
    assert copy_engine_config.diff_engine_settings(one, one) == []
    assert "secret" not in repr(one)


def test_what_the_environment_hides_makes_no_difference():
    hiding = EngineSettings(hidden_environment=frozenset({"PASSWORD"}))
    assert hiding == EngineSettings()


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]"])
def test_one_machine(master):
    assert EngineSettings(master=master).is_local
    assert EngineSettings(engine="inline", master="yarn").is_local


def test_conf_may_hold_secrets_and_is_not_shown():
    made = EngineSettings(conf={"spark.secret": "hunter2"})
    assert "hunter2" not in repr(made)


@pytest.mark.parametrize(
    "key",
    [
        "mm2.spark.python",
        "mm2.spark.master",
        "mm2.spark.allow.insecure.spark",
        "mm2.spark.control.host",
        "mm2.spark.control.port",
        "mm2.spark.driver.host",
        "mm2.spark.ui",
        "mm2.spark.conf.spark.driver.extraJavaOptions",
        "mm2.spark.conf.spark.jars",
        "mm2.spark.conf.spark.plugins",
        "mm2.spark.conf.spark.python.daemon.module",
    ],
)
def test_a_connector_may_not_choose_programs_addresses_or_security(key):
    with pytest.raises(ConfigError) as raised:
        copy_engine_config.parse_engine_settings({key: "true"})
    assert str(raised.value).startswith(f"{key} cannot be set in a connector's configuration")
    assert "properties file of each Connect worker" in str(raised.value)
    props = {"name": "m", "source.cluster.alias": "a", "target.cluster.alias": "b", key: "true"}
    said = [
        text
        for value in mirror_connector_config.validate_source_config(props)
        for text in value.error_messages
    ]
    assert any(text.startswith(key) for text in said)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("conf.spark.driver.memory", "1g -XX:OnOutOfMemoryError=/tmp/x"),
        ("conf.spark.driver.memory", "1g\n2g"),
        ("conf.spark.driver.memory", "\u0661g"),
        ("conf.spark.executor.instances", "-1"),
        ("app.name", "x\nspark.jars=/tmp/x.jar"),
        ("app.name", "-x"),
        ("app.name", "$(id)"),
    ],
)
def test_a_connector_sets_plain_sizes_and_names_only(key, value):
    with pytest.raises(ConfigError, match="allowed: "):
        copy_engine_config.parse_engine_settings({f"mm2.spark.{key}": value})


def test_a_connector_overrides_engine_name_and_sizes_of_its_worker():
    worker = {
        "mm2.engine": "spark",
        "mm2.spark.master": "local[2]",
        "mm2.spark.python": "/usr/bin/python3",
        "mm2.spark.conf.spark.driver.memory": "1g",
    }
    own = {"mm2.spark.app.name": "A->B", "mm2.spark.conf.spark.driver.memory": "2g"}
    assert copy_engine_config.parse_engine_settings(own, worker=worker) == EngineSettings(
        master="local[2]",
        python="/usr/bin/python3",
        app_name="A->B",
        conf={"spark.driver.memory": "2g"},
    )
    inline = copy_engine_config.parse_engine_settings({"mm2.engine": "inline"}, worker=worker)
    assert inline is not None
    assert inline.engine == "inline"


def test_a_mistake_of_the_worker_is_said_to_be_there():
    with pytest.raises(ConfigError, match=r"worker's properties: mm2\.spark\.mastr"):
        of_worker({"mm2.spark.mastr": "local"})
    with pytest.raises(ConfigError, match=r"worker's properties: mm2\.engine"):
        of_worker({"mm2.engine": "storm"})


def test_sizes_and_addresses_of_the_driver_are_the_harmless_spark_properties():
    sizes = {key.removeprefix("conf.") for key in copy_engine_config.SIZE_KEYS}
    hosts_and_ports = (*copy_engine_config.DRIVER_HOSTS, *copy_engine_config.DRIVER_PORTS)
    addresses = {f"spark.{name}" for name in hosts_and_ports}
    assert sizes | addresses == copy_engine_config.HARMLESS_SPARK_CONF
