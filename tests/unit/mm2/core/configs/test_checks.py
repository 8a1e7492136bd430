"""What is wrong across keys; word by word against Java: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest

from connect_runtime.api import connector
from mm2.core.configs import checks
from mm2.core.configs import connector_keys as keys

RC, RU = "read_committed", "read_uncommitted"


def levels(weak: str | None, strong: str | None) -> dict[str, str]:
    given = {"consumer.isolation.level": weak, "source.consumer.isolation.level": strong}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("weak", "strong", "supported"),
    [
        (None, None, False),
        (RU, None, False),
        (None, RU, False),
        ("x", None, False),
        (RC, "x", False),
        (RU, "x", False),
        (RC, None, True),
        (None, RC, True),
        (RU, RC, True),
        (RC, RC, True),
        ("x", RC, True),
    ],
)
def test_exactly_once_needs_a_consumer_that_reads_committed(weak, strong, supported):
    """KIP-618, in Java's table."""
    props = levels(weak, strong)
    word = connector.ExactlyOnceSupport
    assert checks.exactly_once(props) is (word.SUPPORTED if supported else word.UNSUPPORTED)
    found = checks.source({**props, "exactly.once.support": "required"})
    assert (list(found) == []) is supported
    assert "isolation.level" in str(found) or supported
    assert checks.source({**props, "exactly.once.support": "requested"}) == {}


def test_the_clusters_plain_isolation_level_reaches_nobody():
    assert not checks.reads_committed({"source.cluster.isolation.level": RC})


@pytest.mark.parametrize(
    ("props", "wrong"),
    [
        ({}, []),
        ({keys.EMIT_CHECKPOINTS: "false"}, [keys.EMIT_CHECKPOINTS]),
        ({keys.EMIT_CHECKPOINTS: "true", keys.EMIT_SYNCS: "false"}, [keys.EMIT_SYNCS]),
        ({keys.EMIT_CHECKPOINTS: "true", keys.EMIT_SYNCS: "true"}, []),
        (
            {keys.EMIT_CHECKPOINTS: "false", keys.EMIT_SYNCS: "false"},
            [keys.EMIT_CHECKPOINTS, keys.EMIT_SYNCS],
        ),
        ({keys.ENABLED: "false", keys.EMIT_CHECKPOINTS: "false"}, []),
        ({keys.EMIT_CHECKPOINTS: "FALSE"}, []),
    ],
)
def test_checkpoints_need_what_they_are_made_of(props, wrong):
    assert list(checks.checkpoint(props)) == wrong


@pytest.mark.parametrize("other", ["offset-syncs-source-producer.x", "offset-syncs.topic.location"])
def test_offset_syncs_are_not_configured_where_none_are_written(other):
    assert list(checks.source({keys.EMIT_SYNCS: "false", other: "x"})) == [keys.EMIT_SYNCS]
    assert checks.source({keys.EMIT_SYNCS: "true", other: "x"}) == {}
    assert checks.source({keys.EMIT_SYNCS: "false", "offset.lag.max": "1"}) == {}


def test_a_message_for_an_undefined_key_gets_a_value_of_its_own():
    found = checks.validate(keys.HEARTBEAT, {keys.SOURCE_ALIAS: "A"}, across={"x": ["why"]})
    assert [each.error_messages for each in found if each.name == "x"] == [["why"]]
    assert sum(bool(each.error_messages) for each in found) == 1
