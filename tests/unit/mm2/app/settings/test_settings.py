from __future__ import annotations

from mm2.app.settings import settings


def test_client_properties_are_a_mapping_that_prints_without_secrets():
    properties = settings.ClientProperties({"a": "1", "b": "hunter2"}, secrets=frozenset({"b"}))
    assert dict(properties) == {"a": "1", "b": "hunter2"}
    assert len(properties) == 2
    assert "hunter2" not in repr(properties)
    assert properties.shown() == {"a": "1", "b": "[hidden]"}


def test_spark_is_local_on_one_machine():
    for master, local in (("local", True), ("local[4]", True), ("yarn", False)):
        assert settings.SparkSettings(master=master).is_local is local
    assert not settings.SparkSettings(master="local-cluster[1,1,1024]").is_local


def test_spark_settings_hide_their_conf():
    assert "hunter2" not in repr(settings.SparkSettings(conf={"spark.secret": "hunter2"}))
