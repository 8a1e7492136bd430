"""Offsets of connectors are seen and changed; connectors are asked first, and time is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.api.config_def import ConfigDef
from connect_runtime.api.connector import SinkConnector, SourceConnector
from connect_runtime.api.errors import (
    ConfigError,
    ConnectError,
    DataError,
    RetriableError,
    UnsupportedOperationError,
)
from connect_runtime.api.records import SourceOffset
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config import worker_config
from connect_runtime.herder.herder_interface import ConnectRestError
from connect_runtime.storage import cluster_config_state, offset_store
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.worker import connector_offsets
from connect_runtime.worker.connector_offsets import (
    ConnectorOffsetRequests,
    OffsetChangeKind,
    SourceOrSink,
)
from connect_runtime.worker.task_client_interfaces import ConsumerGroupInUseError
from connect_runtime.worker.task_factory import WorkerDeps
from connect_runtime.worker.worker_metrics import WorkerMetrics
from tests.fakes.plugin_contexts import Clock
from tests.fakes.shared_log import FakeSharedLog, FakeTopic
from tests.fakes.task_clients import Clients, Membership, Plugins, Statuses

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SOURCE = {"name": "c", "connector.class": "Source", "secret": "${p:k}"}
SINK = {"name": "c", "connector.class": "Sink", "topics": "t", "transforms": "x"}
GROUP = "connect-c"
REFUSED = FatalError("the cluster said no")
BUSY = ConsumerGroupInUseError("there are members")


def place(number):
    return {"kafka_topic": "t", "kafka_partition": number}


class Asked:
    """What plugins answer, and what they were asked."""

    def __init__(self):
        self.answer = lambda: True
        self.asked = []


class World:
    def __init__(self, **settings):
        self.clock = Clock()
        self.plugin = Asked()
        self.topic = FakeTopic(name="offsets")
        self.store = LogOffsetBackingStore(FakeSharedLog(self.topic))
        self.store.start(1.0)
        self.clients = Clients()
        self.admin = self.clients.one_group_offsets
        config = worker_config.parse_standalone_config(
            {
                "bootstrap.servers": "a:1",
                "key.converter": "String",
                "value.converter": "String",
                "offset.storage.file.filename": "f",
                **settings,
            }
        )
        self.requests = ConnectorOffsetRequests(
            WorkerDeps(
                config=config,
                worker_id="here:1",
                generation=lambda: 3,
                configs=lambda: cluster_config_state.EMPTY_CONFIG_STATE,
                installed=Plugins(plugins(self.plugin)),
                clients=self.clients,
                statuses=Statuses(),
                offsets=self.store,
                resolve=lambda raw: {
                    name: "resolved" if value == "${p:k}" else value for name, value in raw.items()
                },
                membership=Membership(),
                metrics=WorkerMetrics("here:1", self.clock),
                clock=self.clock,
            )
        )

    def keep(self, *pairs, connector="c"):
        offset_store.commit_offsets(self.store, connector, pairs, timeout_s=1.0)

    def read(self, config):
        found = self.requests.read_offsets("c", config).offsets
        return [(dict(each.partition), each.offset) for each in found]

    def alter(self, config, *pairs):
        return self.requests.modify_offsets("c", config, pairs).message

    def reset(self, config):
        return self.requests.modify_offsets("c", config, None).message

    def slow(self, seconds, *, answer=True):
        def answering():
            self.clock.now += seconds
            return answer

        self.plugin.answer = answering


def plugins(plugin):
    class Either:
        def task_class(self): ...

        def task_configs(self, max_tasks):
            return []

        def config(self):
            return ConfigDef()

        def version(self):
            return "1"

        def alter_offsets(self, props, offsets):
            plugin.asked.append((props, offsets))
            return plugin.answer()

    class Source(Either, SourceConnector):
        pass

    class Sink(Either, SinkConnector):
        pass

    class Silent(Sink):
        def alter_offsets(self, props, offsets):
            return SinkConnector.alter_offsets(self, props, offsets)

    class Broken(Sink):
        def __init__(self):
            raise RuntimeError("out of paper")

    return {"Source": Source, "Sink": Sink, "Silent": Silent, "Broken": Broken}


@pytest.fixture
def world():
    return World()


ALTERED = connector_offsets.format_offset_change_success(
    OffsetChangeKind.ALTER, by_connector_too=True
)
RESET = connector_offsets.format_offset_change_success(
    OffsetChangeKind.RESET, by_connector_too=True
)


# sources


def test_a_sources_offsets_are_those_in_the_store(world):
    world.keep(({"f": "a"}, {"n": 1}), ({"f": "b"}, {"n": 2}), (None, {"n": 3}))
    world.keep(({"f": "z"}, {"n": 9}), connector="another")
    assert world.read(SOURCE) == [({"f": "a"}, {"n": 1}), ({"f": "b"}, {"n": 2})]


def test_a_source_is_asked_then_its_offsets_are_written(world):
    world.keep(({"f": "a"}, {"n": 1}), ({"f": "b"}, {"n": 2}))
    pairs: list[Any] = [({"z": 1, "f": "new"}, {"n": 5}), ({"f": "b"}, None), (None, {"n": 7})]
    assert world.alter(SOURCE, *pairs) == ALTERED
    [(props, offsets)] = world.plugin.asked
    assert props["secret"] == "resolved"
    assert offsets == [SourceOffset(at, offset) for at, offset in pairs]
    assert world.read(SOURCE) == [({"f": "a"}, {"n": 1}), ({"z": 1, "f": "new"}, {"n": 5})]
    assert world.store.read_offsets("c", [None], 1.0) == [{"n": 7}]
    assert b'["c",{"f":"new","z":1}]' in [each.key for each in world.topic.records]


def test_a_source_is_reset_whatever_its_offsets_are(world):
    world.keep(({"f": "a"}, {"n": 1}))
    world.topic.append(b'["c",{"f":"odd"}]', b'"no offset"')
    assert world.reset(SOURCE) == RESET
    assert world.read(SOURCE) == []
    assert world.plugin.asked[0][1] == [
        SourceOffset({"f": "a"}, None),
        SourceOffset({"f": "odd"}, None),
    ]
    written = len(world.topic.records)
    assert world.reset(SOURCE) == RESET, "again is no error"
    assert world.plugin.asked[1][1] == []
    assert len(world.topic.records) == written


def test_what_a_source_cannot_store_is_refused_before_it_is_asked(world):
    with pytest.raises(DataError, match="field n contains ARRAY"):
        world.alter(SOURCE, ({"f": "a"}, {"n": [1]}))
    assert world.plugin.asked == []


def test_who_keeps_no_offsets_elsewhere_may_still_have_to_be_told(world):
    world.plugin.answer = lambda: False
    assert world.alter(
        SOURCE, ({"f": "a"}, {"n": 1})
    ) == connector_offsets.format_offset_change_success(
        OffsetChangeKind.ALTER, by_connector_too=False
    )
    silent = {**SINK, "connector.class": "Silent"}
    assert world.reset(silent) == connector_offsets.format_offset_change_success(
        OffsetChangeKind.RESET, by_connector_too=False
    )


def raising(error):
    def answer():
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UnsupportedOperationError("no"), connector_offsets.format_offset_changes_unsupported("c")),
        (ConnectError("this offset is odd"), "this offset is odd"),
        (RuntimeError("out of paper"), "Failed to modify offsets for {kind} connector c"),
    ],
)
@pytest.mark.parametrize("config", [SOURCE, SINK])
def test_what_a_connector_refuses_is_not_done(world, config, error, message):
    world.keep(({"f": "a"}, {"n": 1}))
    world.admin.groups[GROUP] = {T0: 5}
    before = world.read(config)
    world.plugin.answer = raising(error)
    with pytest.raises(ConnectError) as raised:
        world.reset(config)
    assert str(raised.value) == message.format(kind=config["connector.class"].lower())
    assert world.read(config) == before


@pytest.mark.parametrize("config", [SOURCE, SINK])
def test_a_connector_that_takes_all_the_time_leaves_none_to_do_it(world, config):
    world.keep(({"f": "a"}, {"n": 1}))
    world.admin.groups[GROUP] = {T0: 5}
    before = world.read(config)
    world.slow(connector_offsets.REQUEST_TIMEOUT_S)
    with pytest.raises(ConnectError, match="Timed out while calling the 'alterOffsets'"):
        world.reset(config)
    assert world.read(config) == before


def test_a_store_that_cannot_be_read_is_told_by_its_own_words_or_the_clocks(world):
    world.topic.away = True
    for call in (world.read, world.reset):
        with pytest.raises(RetriableError, match="nobody answered within 90"):
            call(SOURCE)

    def partitions(connector, timeout_s):
        assert timeout_s == connector_offsets.REQUEST_TIMEOUT_S
        world.clock.now += timeout_s
        raise RetriableError("not yet")

    world.store.connector_partitions = partitions
    with pytest.raises(ConnectError) as raised:
        world.reset(SOURCE)
    assert str(raised.value) == connector_offsets.format_offset_read_timeout("c")


def test_a_write_that_fails_is_told(world):
    world.topic.refusals.append(REFUSED)
    with pytest.raises(ConnectError) as raised:
        world.alter(SOURCE, ({"f": "a"}, {"n": 1}))
    assert str(raised.value) == "Failed to modify offsets for source connector c"
    assert raised.value.__cause__ is REFUSED


def test_a_write_that_is_not_acknowledged_in_time_is_told(world):
    world.slow(connector_offsets.REQUEST_TIMEOUT_S - 0.01)
    real = world.store.write_offsets

    def write(connector, pairs, *, on_done):
        world.clock.now += 1.0
        real(connector, pairs, on_done=lambda _: None)

    world.store.write_offsets = write
    with pytest.raises(ConnectError) as raised:
        world.alter(SOURCE, ({"f": "a"}, {"n": 1}))
    assert str(raised.value) == connector_offsets.format_offset_write_timeout("c")


# sinks


def test_a_sinks_offsets_are_its_groups(world):
    world.admin.groups[GROUP] = {T1: 6, T0: 5}
    assert world.read(SINK) == [
        (place(0), {"kafka_offset": 5}),
        (place(1), {"kafka_offset": 6}),
    ]
    assert world.clients.plans[0].client_id == "connector-worker-adminclient-c"
    assert world.admin.calls == [("fetch", connector_offsets.REQUEST_TIMEOUT_S)]
    mine = {**SINK, "consumer.override.group.id": "mine", "admin.override.retries": "3"}
    assert world.read(mine) == []
    assert world.clients.plans[1].properties["retries"] == "3"
    assert world.admin.closed == 2


def test_a_sink_is_asked_then_its_groups_offsets_are_changed(world):
    world.admin.groups[GROUP] = {T0: 5, T1: 6}
    world.slow(10.0)
    assert world.alter(SINK, (place("0"), {"kafka_offset": "7"}), (place(1), None)) == ALTERED
    assert world.plugin.asked[0][1] == {T0: 7, T1: None}
    assert world.admin.groups[GROUP] == {T0: 7}
    left_s = connector_offsets.REQUEST_TIMEOUT_S - 10.0
    assert world.admin.calls == [("commit", left_s), ("forget", left_s)]
    assert world.admin.closed == 1


def test_a_sinks_group_goes_when_it_is_reset(world):
    world.admin.groups[GROUP] = {T0: 5, T1: 6}
    assert world.reset(SINK) == RESET
    assert world.plugin.asked[0][1] == {T0: None, T1: None}
    assert GROUP not in world.admin.groups
    assert world.reset(SINK) == RESET
    assert world.plugin.asked[1][1] == {}


def test_a_sinks_offsets_that_are_none_are_a_bad_request(world):
    with pytest.raises(ConnectRestError, match="cannot be null or missing") as raised:
        world.alter(SINK, (None, None))
    assert raised.value.status == 400
    assert world.plugin.asked == []
    with pytest.raises(ConnectError, match="Failed to modify offsets for sink connector c"):
        world.alter(SINK, (place(0), {"kafka_offset": -1}))
    assert world.admin.calls == []
    assert world.admin.closed == 2


def reading(world):
    world.read(SINK)


def altering(world):
    world.alter(SINK, (place(0), {"kafka_offset": 1}), (place(1), None))


def resetting(world):
    world.reset(SINK)


@pytest.mark.parametrize(
    ("act", "fails", "error", "message"),
    [
        (
            reading,
            0,
            REFUSED,
            connector_offsets.format_offset_read_failure(SourceOrSink.SINK, "c"),
        ),
        (reading, 0, BUSY, connector_offsets.format_offset_read_failure(SourceOrSink.SINK, "c")),
        (
            altering,
            0,
            REFUSED,
            connector_offsets.format_group_offsets_change_failure(OffsetChangeKind.ALTER, "c"),
        ),
        (
            altering,
            1,
            REFUSED,
            connector_offsets.format_group_offsets_change_failure(OffsetChangeKind.ALTER, "c"),
        ),
        (
            altering,
            0,
            BUSY,
            connector_offsets.format_consumer_group_in_use(OffsetChangeKind.ALTER, "c"),
        ),
        (
            altering,
            1,
            BUSY,
            connector_offsets.format_consumer_group_in_use(OffsetChangeKind.ALTER, "c"),
        ),
        (resetting, 0, REFUSED, connector_offsets.format_group_offsets_list_failure("c")),
        (
            resetting,
            1,
            REFUSED,
            connector_offsets.format_group_offsets_change_failure(OffsetChangeKind.RESET, "c"),
        ),
        (
            resetting,
            1,
            BUSY,
            connector_offsets.format_consumer_group_in_use(OffsetChangeKind.RESET, "c"),
        ),
    ],
)
def test_what_the_cluster_refuses_is_told_as_java_does(world, act, fails, error, message):
    """`fails`: which question does."""
    world.admin.groups[GROUP] = {T0: 5, T1: 6}
    real = world.admin._asked

    def asked(what, timeout_s):
        if len(world.admin.calls) == fails:
            world.admin.refusals.append(error)
        real(what, timeout_s)

    world.admin._asked = asked
    with pytest.raises(ConnectError) as raised:
        act(world)
    assert str(raised.value) == message
    assert raised.value.__cause__ is error
    assert world.admin.closed == 1


def test_a_class_that_is_not_there_or_cannot_be_made_is_told(world):
    with pytest.raises(ConfigError, match="Gone"):
        world.read({**SINK, "connector.class": "Gone"})
    with pytest.raises(ConnectError, match="Failed to create connector c"):
        world.reset({**SINK, "connector.class": "Broken"})


def test_what_the_worker_does_not_let_a_connector_override_is_refused():
    world = World(**{"connector.client.config.override.policy": "None"})
    for key in ("admin.override.retries", "consumer.override.group.id"):
        for act in (world.read, world.reset):
            with pytest.raises(ConfigError, match="policy does not allow"):
                act({**SINK, key: "3"})
    assert world.admin.calls == []
