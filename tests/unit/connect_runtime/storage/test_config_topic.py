"""Whoever follows the differences arrives at the new view."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import cluster_config_state, config_records, config_topic
from connect_runtime.storage.cluster_config_state import SessionKey, TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.config_topic import (
    ConfigChange,
    ConfigTopicState,
    ConnectorConfigured,
    ConnectorRemoved,
    LoggerLevelSet,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TaskConfigsCommitted,
)
from connect_runtime.storage.internal_topic_log import SkippedRecord
from tests.support import examples

PAUSED = TargetState.PAUSED
KEY = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=1)


def view(*records):
    fold = ConfigTopicState()
    for offset, record in enumerate(records):
        fold.apply_record(record.key, record.value, offset=offset)
    fold.finish_replay()
    return fold.snapshot()


def tasks(name, *configs):
    return (
        *config_records.encode_task_configs(name, configs),
        config_records.encode_task_config_commit(name, len(configs)),
    )


BEFORE = view(
    config_records.encode_connector_config("same", {"a": "1"}),
    *tasks("same", {"t": "0"}),
    config_records.encode_connector_config("gone", {}),
    config_records.encode_connector_config("other", {"a": "1"}),
    *tasks("other", {"t": "0"}, {"t": "1"}),
    config_records.encode_connector_config("paused", {}),
    config_records.encode_connector_config("lost", {}),
    *tasks("lost", {}),
)
AFTER = view(
    config_records.encode_session_key(KEY),
    config_records.encode_connector_config("same", {"a": "1"}),
    *tasks("same", {"t": "0"}),
    config_records.encode_connector_config("other", {"a": "2"}),
    *tasks("other", {"t": "0"}, {"t": "2"}),
    config_records.encode_target_state("paused", PAUSED),
    config_records.encode_connector_config("paused", {}),
    config_records.encode_target_state("new", PAUSED),
    config_records.encode_connector_config("new", {}),
    config_records.encode_connector_config("lost", {}),
)


def test_all_that_differs_is_told_and_nothing_else():
    assert config_topic.diff_config_states(BEFORE, AFTER) == [
        SessionKeyChanged(KEY),
        ConnectorRemoved("gone", existed=True),
        TaskConfigsCommitted("lost", ()),
        ConnectorConfigured("new", created=True),
        ConnectorConfigured("other", created=False),
        TaskConfigsCommitted("other", (ConnectorTaskId("other", 0), ConnectorTaskId("other", 1))),
        TargetStateChanged("paused"),
    ]


def test_of_what_is_the_same_nothing_is_told():
    assert config_topic.diff_config_states(AFTER, AFTER) == []
    assert (
        config_topic.diff_config_states(
            cluster_config_state.EMPTY_CONFIG_STATE, cluster_config_state.EMPTY_CONFIG_STATE
        )
        == []
    )


def test_an_empty_topic_removes_all():
    names = [each.connector for each in config_topic.diff_config_states(AFTER, view())]
    assert names == ["lost", "new", "other", "paused", "same"]


State = TargetState
C = {"name": "c", "v": "0"}


def connector(name="c", config=C):
    return (f"connector-{name}", {"properties": config})


def task(number, value="0", name="c"):
    return (f"task-{name}-{number}", {"properties": {"v": value}})


def commit(tasks, name="c"):
    return (f"commit-{name}", {"tasks": tasks})


def target(state, name="c"):
    return (f"target-state-{name}", {"state": "PAUSED", "state.v2": state})


def feed(log, *records, offset=None):
    """Append records; what each changed."""
    start = max(log.snapshot().offset, 0) if offset is None else offset
    return [
        log.apply_record(
            key.encode(), None if value is None else json.dumps(value).encode(), offset=at
        )
        for at, (key, value) in enumerate(records, start)
    ]


def replayed(*records):
    """A log whose start was at the end of these."""
    log = ConfigTopicState()
    answers = feed(log, *records)
    assert not any(isinstance(each, ConfigChange) for each in answers)
    log.finish_replay()
    log.check_invariants()
    return log


def live(*records):
    log = replayed(*records)
    return log, lambda *more: feed(log, *more)


def tasks_of(view, name="c"):
    return [dict(view.task_config(each) or {}) for each in view.tasks(name)]


def test_restore():
    """KafkaConfigBackingStoreTest.testRestore."""
    log = replayed(
        connector(),
        task(0, "old"),
        task(1, "old"),
        connector(config={"v": "1"}),
        commit(2),
        connector(config={"v": "2"}),
        task(0, "new"),
    )
    view = log.snapshot()
    assert view.offset == 7
    assert view.connectors() == ["c"]
    assert view.target_state("c") is State.STARTED
    assert view.config("c") == {"v": "2"}
    assert view.applied_config("c") == {"v": "1"}
    assert tasks_of(view) == [{"v": "old"}, {"v": "old"}]
    assert view.inconsistent_connectors() == []


def test_restore_fencing():
    """testRestore's records of task counts: one before a commit, one of an unknown connector."""
    log = replayed(
        ("tasks-fencing-c", {"task-count": 6}),
        connector(),
        task(0),
        commit(1),
        ("tasks-fencing-d", {"task-count": 9}),
    )
    view = log.snapshot()
    assert (view.fencing_count("c"), view.fencing_pending("c")) == (6, True)
    assert (view.fencing_count("d"), view.fencing_pending("d")) == (9, False)
    assert view.connectors() == ["c"]


def test_restore_zero_tasks():
    """testRestoreZeroTasks."""
    log = replayed(connector(), task(0), task(1), commit(2), task(0, "new"), commit(0))
    view = log.snapshot()
    assert view.tasks("c") == []
    assert view.task_count("c") == 0
    assert view.inconsistent_connectors() == []


def test_a_commit_whose_tasks_were_compacted_is_inconsistent_until_a_whole_set_comes():
    """testPutTaskConfigsDoesNotResolveAllInconsistencies."""
    log, append = live(connector(), task(1), commit(2), task(0))
    view = log.snapshot()
    assert view.inconsistent_connectors() == ["c"]
    assert view.tasks("c") == []
    assert view.task_count("c") == 2
    *_, told = append(task(0, "new"), commit(1))
    assert told == TaskConfigsCommitted("c", (ConnectorTaskId("c", 0),))
    view = log.snapshot()
    assert view.inconsistent_connectors() == []
    assert tasks_of(view) == [{"v": "new"}]


def test_an_incomplete_commit_forgets_what_it_was_given():
    log, append = live(connector(), task(1), commit(2))
    append(task(0), commit(2))
    assert log.snapshot().inconsistent_connectors() == ["c"]


def test_tasks_beyond_the_count_do_no_harm():
    log = replayed(connector(), task(1, "compacted away, almost"), task(0), commit(1))
    assert tasks_of(log.snapshot()) == [{"v": "0"}]


def test_a_new_set_of_tasks_leaves_nothing_of_the_old():
    log, append = live(connector(), task(0), task(1), commit(2))
    append(task(0, "new"), commit(1))
    assert log.snapshot().task_config(ConnectorTaskId("c", 1)) is None


@pytest.mark.parametrize(
    ("written", "state"),
    [
        ({"state": "PAUSED"}, State.PAUSED),
        ({"state": "PAUSED", "state.v2": "STOPPED"}, State.STOPPED),
        ({"state": "NONSENSE"}, State.STARTED),
        ({}, State.STARTED),
        (None, State.STARTED),
    ],
)
def test_restore_target_state(written, state):
    """testRestoreTargetState, …UnexpectedDeletion, and what is no state at all."""
    log = replayed(connector(), ("target-state-c", written))
    assert log.snapshot().target_state("c") is state


def test_when_a_target_state_was_written_is_known():
    log = ConfigTopicState()
    assert log.snapshot().target_state_timestamp_ms("c") == -1
    key, value = target("STOPPED")
    log.apply_record(key.encode(), json.dumps(value).encode(), offset=0, wall_ms=7_000)
    assert log.snapshot().target_state_timestamp_ms("c") == 7_000


def test_a_target_state_may_come_before_its_connector():
    log = replayed(target("STOPPED"), connector())
    assert log.snapshot().target_state("c") is State.STOPPED


def test_target_states_are_told_only_of_connectors_that_exist_and_when_they_change():
    log, append = live(connector())
    told = append(
        target("PAUSED"),
        target("PAUSED"),
        ("target-state-c", None),
        target("STARTED"),
        target("STOPPED", name="not-yet"),
    )
    assert told == [TargetStateChanged("c"), None, None, None, None]
    assert log.snapshot().target_state("not-yet") is State.STOPPED
    assert not log.snapshot().has_connector("not-yet")


def test_restore_connector_deletion():
    """testRestoreConnectorDeletion: its tasks go with it, also those of a commit that follows."""
    log = replayed(
        connector(), task(0), commit(1), ("connector-c", None), ("target-state-c", None),
        task(0), commit(1),
    )  # fmt: skip
    view = log.snapshot()
    assert not view.has_connector("c")
    assert view.tasks("c") == []
    assert view.target_state("c") is None
    assert view.offset == 7


def test_what_is_removed_while_it_runs_is_gone_with_all_that_it_had():
    """testBackgroundConnectorDeletion."""
    log, append = live(connector(), task(0), task(1), commit(2))
    assert append(("connector-c", None), ("target-state-c", None)) == [
        ConnectorRemoved("c", existed=True),
        None,
    ]
    view = log.snapshot()
    assert (view.config("c"), view.target_state("c"), view.tasks("c")) == (None, None, [])
    assert view.task_config(ConnectorTaskId("c", 0)) is None
    assert view.task_count("c") == 0
    assert view.inconsistent_connectors() == []


def test_a_removal_is_told_also_of_what_was_not_known():
    _, append = live()
    assert append(("connector-x", None)) == [ConnectorRemoved("x", existed=False)]


def test_a_tombstone_of_a_task_is_skipped():
    _, append = live(connector())
    assert append(("task-c-0", None)) == [
        SkippedRecord("'task-c-0': the value is null, not an object")
    ]


def test_fencing_counts_and_generations():
    """testTaskCountRecordsAndGenerations."""
    log, append = live(connector(), task(0), task(1), commit(2))
    assert (log.snapshot().task_config_generation("c"), log.snapshot().fencing_pending("c")) == (
        0,
        True,
    )
    append(("tasks-fencing-c", {"task-count": 4}))
    view = log.snapshot()
    assert (view.fencing_count("c"), view.fencing_pending("c")) == (4, False)
    append(task(0), commit(1))
    view = log.snapshot()
    assert (
        view.task_config_generation("c"),
        view.fencing_count("c"),
        view.fencing_pending("c"),
    ) == (
        1,
        4,
        True,
    )


def test_what_is_over_at_the_start_is_not_told():
    """Restart requests and logger levels of the past; later ones are told."""
    log, append = live(
        ("restart-connector-c", {"include-tasks": True, "only-failed": True}),
        ("logger-cluster-a", {"level": "DEBUG"}),
        ("logger-cluster-b", None),
        ("restart-connector-c", None),
    )
    told = append(
        ("restart-connector-c", {"include-tasks": True}), ("logger-cluster-a", {"level": "INFO"})
    )
    request = RestartRequest(connector="c", include_tasks=True)
    assert told == [
        RestartRequested(request),
        LoggerLevelSet("a", "INFO"),
    ]
    assert log.snapshot().offset == 6


def test_the_session_key_is_replaced_and_told():
    written = {"key": "AQI=", "algorithm": "HmacSHA256", "creation-timestamp": 5}
    log, append = live(("session-key", written))
    assert log.snapshot().session_key.key == b"\x01\x02"
    [told] = append(("session-key", written | {"key": "Aw=="}))
    assert told.key == log.snapshot().session_key
    assert told.key.key == b"\x03"


def test_connectors_and_commits_are_told():
    _, append = live()
    told = append(
        connector(), task(0), commit(1), commit(0), commit(1), connector(), ("connector-c", None)
    )
    assert told == [
        ConnectorConfigured("c", created=True),
        None,
        TaskConfigsCommitted("c", (ConnectorTaskId("c", 0),)),
        TaskConfigsCommitted("c", ()),
        TaskConfigsCommitted("c", ()),
        ConnectorConfigured("c", created=False),
        ConnectorRemoved("c", existed=True),
    ]


def test_a_connector_configured_again_keeps_its_tasks_through_compaction():
    """KAFKA-17719: its record moved behind the commit. That its tasks were made of this
    configuration is not known, so it must be asked for them again."""
    log = replayed(task(0), task(1), commit(2), connector())
    view = log.snapshot()
    assert len(view.tasks("c")) == 2
    assert view.applied_config("c") is None
    assert view.task_config_generation("c") == 0


def test_what_tasks_were_given_before_is_known_for_a_while_with_its_time():
    log, append = live(connector(), task(0), commit(1))
    append(task(0, "new"))
    log.apply_record(b"commit-c", b'{"tasks": 1}', offset=log.snapshot().offset, wall_ms=7)
    append(task(1, "alone"), commit(2))
    assert log.task_config_history.get_task_configs("c").keys() == {0}
    given = [
        (each.published_ms, dict(each.config))
        for each in log.task_config_history.get_task_configs("c")[0]
    ]
    assert given == [(-1, {"v": "0"}), (7, {"v": "new"})]
    append(("connector-c", None))
    assert log.task_config_history.get_task_configs("c") == {}


def test_tasks_of_a_connector_that_never_comes_are_dropped_at_the_end():
    """KAFKA-16838: deleted, and every trace of that compacted away."""
    log, append = live(task(0), commit(1))
    append(connector())
    view = log.snapshot()
    assert view.tasks("c") == []
    assert not view.fencing_pending("c")
    assert view.task_config_generation("c") is None
    assert log.task_config_history.get_task_configs("c") == {}


def test_tasks_written_after_a_removal_do_not_come_back_with_a_new_connector():
    log = replayed(connector(), ("connector-c", None), task(0), commit(1), connector())
    assert log.snapshot().tasks("c") == []


def test_tasks_of_a_predecessor_are_not_those_of_a_connector_created_stopped():
    """Their deletion was compacted away; the offsets of one without tasks may be altered."""
    log = replayed(task(0), commit(1), target("STOPPED"), connector())
    view = log.snapshot()
    assert (view.task_count("c"), view.config("c"), view.target_state("c")) == (0, C, State.STOPPED)


def test_after_the_start_a_commit_without_connector_says_nothing():
    log, append = live()
    assert append(task(0), commit(1), connector()) == [
        None,
        None,
        ConnectorConfigured("c", created=True),
    ]
    assert log.snapshot().tasks("c") == []
    append(commit(1))
    assert log.snapshot().inconsistent_connectors() == ["c"]


@pytest.mark.parametrize(
    ("key", "value", "advances"),
    [
        (b"connector-c", b"{", False),
        (b"connector-c", b"[]", True),
        (b"connector-c", b'{"properties":{"a":1}}', True),
        (b"commit-c", b'{"tasks":"2"}', True),
        (b"commit-c", b"null", True),
        (b"task-c", b'{"properties":{}}', True),
        (b"session-key", b'{"key":5}', True),
        (b"tasks-fencing-c", b"7", True),
        (b"something else", b"{}", True),
        (b"\xff", b"{}", True),
        (None, b"{}", True),
    ],
)
def test_bad_records_are_skipped_and_named(key, value, advances):
    """The offset moves wherever the value is JSON, as in Java."""
    log, _ = live(connector(), task(0), commit(1))
    before = log.snapshot()
    answer = log.apply_record(key, value, offset=3)
    assert isinstance(answer, SkippedRecord)
    if key == b"connector-c":
        assert "'connector-c'" in answer.reason
    after = log.snapshot()
    assert after.offset == (4 if advances else 3)
    assert after.entries == before.entries


def test_a_view_is_made_once_and_never_changes():
    log, append = live(connector())
    before = log.snapshot()
    assert log.snapshot() is before
    append(connector(config={"v": "9"}))
    assert before.config("c") == C
    assert before.offset == 1


NAMES = st.sampled_from(["a", "b-1"])
RECORDS = st.one_of(
    st.builds(
        lambda n, v: connector(n, {"v": str(v)}), NAMES, st.integers(0, 2)
    ),
    st.builds(lambda n, v: task(v, str(v), n), NAMES, st.integers(0, 2)),
    st.builds(lambda n, v: commit(v, n), NAMES, st.integers(0, 2)),
    st.builds(lambda n, s: target(s, n), NAMES, st.sampled_from(["STARTED", "STOPPED", "?"])),
    st.builds(lambda n: (f"connector-{n}", None), NAMES),
    st.builds(lambda n: (f"target-state-{n}", None), NAMES),
    st.builds(lambda n: (f"tasks-fencing-{n}", {"task-count": 1}), NAMES),
    st.just(("restart-connector-a", {})),
    st.just(("junk", {})),
)  # fmt: skip
LOGS = st.lists(RECORDS, max_size=25)


class Oracle:
    """The rules in the plainest words, after the start."""

    def __init__(self):
        self.configs, self.states, self.counts, self.tasks = {}, {}, {}, {}
        self.deferred, self.bad, self.pending = {}, set(), set()

    def apply(self, key, value):
        if key.startswith("target-state-"):
            self.target(key[len("target-state-") :], value)
        elif key.startswith("connector-"):
            self.connector(key[len("connector-") :], value)
        elif key.startswith("task-"):
            name, number = key[len("task-") :].rsplit("-", 1)
            self.deferred.setdefault(name, {})[int(number)] = value["properties"]
        elif key.startswith("commit-"):
            self.commit(key[len("commit-") :], value["tasks"])
        elif key.startswith("tasks-fencing-"):
            self.pending.discard(key[len("tasks-fencing-") :])

    def target(self, name, value):
        if value is None:
            self.states.pop(name, None)
            if name in self.configs:
                self.states[name] = "STARTED"
        elif value["state.v2"] != "?":
            self.states[name] = value["state.v2"]

    def connector(self, name, value):
        if value is None:
            for table in (self.configs, self.counts, self.tasks, self.deferred):
                table.pop(name, None)
        else:
            self.configs[name] = value["properties"]
            self.states.setdefault(name, "STARTED")

    def commit(self, name, count):
        given = self.deferred.pop(name, {})
        if name not in self.configs:
            return
        if set(range(count)) <= set(given):
            self.tasks[name] = given
            self.bad.discard(name)
        else:
            self.bad.add(name)
        self.counts[name] = count
        self.pending.add(name)

    def view(self):
        return {
            name: (
                config,
                self.states[name],
                self.counts.get(name, 0),
                [] if name in self.bad else
                [self.tasks[name][each] for each in range(self.counts.get(name, 0))],
                name in self.pending,
            )
            for name, config in self.configs.items()
        }  # fmt: skip


def shown(log):
    view = log.snapshot()
    return {
        name: (
            dict(view.config(name)),
            view.target_state(name).value,
            view.task_count(name),
            tasks_of(view, name),
            view.fencing_pending(name),
        )
        for name in view.connectors()
    }


@settings(max_examples=examples.of(60))
@given(LOGS)
def test_the_fold_agrees_with_the_rules_in_plain_words(records):
    log, oracle = replayed(), Oracle()
    for record in records:
        feed(log, record)
        oracle.apply(*record)
        log.check_invariants()
        assert shown(log) == oracle.view()


@settings(max_examples=examples.of(60))
@given(LOGS, st.data())
def test_reading_again_from_anywhere_changes_nothing(records, data):
    once = ConfigTopicState()
    feed(once, *records)
    again = ConfigTopicState()
    feed(again, *records[: data.draw(st.integers(0, len(records)))])
    start = data.draw(st.integers(0, again.snapshot().offset)) if again.snapshot().offset > 0 else 0
    feed(again, *records[start:], offset=start)
    once.finish_replay()
    again.finish_replay()
    again.check_invariants()
    assert again.snapshot() == once.snapshot()


@settings(max_examples=examples.of(60))
@given(LOGS, st.data())
def test_compaction_never_brings_back_a_connector_nor_loses_one(records, data):
    """Any earlier record of a key that was written again may be gone."""
    last = {key: at for at, (key, _) in enumerate(records)}
    compacted = ConfigTopicState()
    for at, (key, value) in enumerate(records):
        if last[key] == at or data.draw(st.booleans()):
            feed(compacted, (key, value), offset=at)
    compacted.finish_replay()
    compacted.check_invariants()
    whole = replayed(*records)
    names = whole.snapshot().connectors()
    assert compacted.snapshot().connectors() == names
    for name in names:
        assert compacted.snapshot().config(name) == whole.snapshot().config(name)
        if (f"connector-{name}", None) in records:
            continue  # its tasks may be a predecessor's, until it is asked for its own
        assert compacted.snapshot().task_count(name) in (0, whole.snapshot().task_count(name))


def test_records_of_a_connector_whose_name_is_too_long_are_skipped():
    """A worker could not encode such a name in an assignment, and the group would end."""
    fold = ConfigTopicState()
    long = "x" * 256
    records = (
        *config_records.encode_connector_creation(long, {"a": "1"}, PAUSED),
        *tasks(long, {"t": "0"}),
        config_records.encode_fencing_count(long, 1),
        config_records.encode_restart_request(RestartRequest(connector=long)),
        *config_records.encode_connector_creation("x" * 255, {"a": "1"}),
    )
    found = [
        fold.apply_record(each.key, each.value, offset=offset)
        for offset, each in enumerate(records)
    ]
    assert [isinstance(each, SkippedRecord) for each in found] == [True] * 6 + [False]
    fold.finish_replay()
    fold.check_invariants()
    assert fold.snapshot().connectors() == ["x" * 255]
    assert fold.snapshot().offset == len(records)


@pytest.mark.parametrize("key", ["connector-", "commit-", "nothing-", "task-"])
def test_the_message_about_a_skipped_record_has_a_largest_size(key):
    found = ConfigTopicState().apply_record((key + "x" * 1_000_000).encode(), b"{}", offset=0)
    assert isinstance(found, SkippedRecord)
    assert len(found.reason) < 1_000


def ignoring(*records):
    log = ConfigTopicState(allowed_connectors=frozenset({"c"}))
    feed(log, *records)
    log.finish_replay()
    return log


def test_connectors_that_are_not_allowed_are_only_counted():
    others = (
        connector("x"),
        target("STOPPED", "x"),
        task(0, name="x"),
        commit(1, "x"),
        ("tasks-fencing-x", {"task-count": 1}),
    )
    log = ignoring(*others, connector(), task(0), commit(1))
    assert feed(log, *others, ("restart-connector-x", {"include-tasks": True})) == [None] * 6
    assert log.snapshot().connectors() == ["c"]
    assert log.snapshot().entries.keys() == {"c"}
    assert log.snapshot().ignored_connectors == {"x"}
    assert not log.task_config_history.get_task_configs("x")
    assert log.snapshot().offset == 14
    log.check_invariants()


def test_deleted_connectors_are_no_longer_counted():
    log = ignoring(connector("x"), connector("y"), ("connector-x", None))
    assert log.snapshot().ignored_connectors == {"y"}


def test_names_of_ignored_connectors_are_limited():
    log = ignoring(*(connector(f"x{each}") for each in range(config_topic.MAX_IGNORED_NAMES + 9)))
    assert len(log.snapshot().ignored_connectors) == config_topic.MAX_IGNORED_NAMES
