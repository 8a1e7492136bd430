"""The connectors' keys; against Java's own definitions: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.core.task import connector_keys as worker_keys
from mm2.core import filters
from mm2.core.configs import connector_keys as keys
from mm2.core.configs import java_classes

NEEDED = {keys.SOURCE_ALIAS: "A"}


def test_common_keys_are_those_that_the_worker_defines():
    assert set(worker_keys.CONNECTOR.keys) == keys.COMMON


def test_no_connector_defines_what_the_worker_defines():
    for definition in (keys.SOURCE, keys.CHECKPOINT, keys.HEARTBEAT):
        assert keys.COMMON.isdisjoint(definition.keys)


def test_defaults_of_filters_are_those_of_the_filters():
    found = keys.SOURCE.parse(NEEDED, load=java_classes.load)
    assert tuple(found[keys.TOPICS_EXCLUDE]) == filters.DEFAULT_TOPICS_EXCLUDE
    assert tuple(found[keys.PROPERTIES_EXCLUDE]) == filters.DEFAULT_CONFIG_PROPERTIES_EXCLUDE
    groups = keys.CHECKPOINT.parse(NEEDED, load=java_classes.load)[keys.GROUPS_EXCLUDE]
    assert tuple(groups) == filters.DEFAULT_GROUPS_EXCLUDE


def test_the_source_has_to_be_named():
    with pytest.raises(errors.ConfigError, match=r"source\.cluster\.alias"):
        keys.HEARTBEAT.parse({})


def test_what_reaches_connectors_from_the_top_of_a_file():
    assert {"topics", "groups", "emit.heartbeats.enabled", "tasks.max"} <= keys.EVERY
    assert keys.EVERY.isdisjoint({"use.defaults.from", "exactly.once.support", "topics.blacklist"})


def test_every_key_is_explained():
    for definition in (keys.SOURCE, keys.CHECKPOINT, keys.HEARTBEAT):
        assert all(each.documentation for each in definition.keys.values())
