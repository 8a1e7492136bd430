"""A group that runs what these topics say is told; any other is left in peace."""

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connect_protocol, connectors_and_tasks
from connect_runtime.group.connect_protocol import (
    ConnectAssignment,
    ConnectProtocol,
    WorkerMetadata,
)
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.kafka import conflicting_connect_cluster
from connect_runtime.kafka.conflicting_connect_cluster import (
    ConflictingCluster,
    DescribedGroup,
    InternalTopicsContent,
)
from connect_runtime.storage import config_records, status_records
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.status_records import RunState, RunStatus
from connect_runtime.storage.status_topic import StatusTopicState

TASK = ConnectorTaskId("c", 0)
BOTH = ConnectorsAndTasks(connectors=("c",), tasks=(TASK,))
SPOKEN = ConnectProtocol.SESSIONED
OWN = "here:8083"
RUNNING, UNASSIGNED = RunState.RUNNING, RunState.UNASSIGNED


def member(url: str, assigned: ConnectorsAndTasks, offset: int) -> tuple[bytes, bytes]:
    state = WorkerMetadata(url=url, config_offset=offset)
    assignment = ConnectAssignment(
        leader="m-1", leader_url=url, config_offset=offset, assigned=assigned
    )
    return (
        connect_protocol.encode_metadata(state, SPOKEN),
        connect_protocol.encode_assignment(assignment, SPOKEN),
    )


def group(*members: tuple[bytes, bytes], name: str = "other", kind: str = "connect"):
    return DescribedGroup(group_id=name, protocol_type=kind, members=members)


def topics(*, worker_id: str | None = None, state=RUNNING, configured: bool = True):
    """One connector with one task, six records long."""
    configs, statuses = ConfigTopicState(), StatusTopicState()
    records = [
        *config_records.encode_connector_creation("c", {"name": "c"}, None),
        *config_records.encode_task_configs("c", [{"n": "0"}]),
        config_records.encode_task_config_commit("c", 1),
    ]
    for offset, each in enumerate(records if configured else ()):
        configs.apply_record(each.key, each.value, offset=offset)
    if worker_id is not None:
        status = RunStatus(state=state, worker_id=worker_id, generation=3)
        record = status_records.encode_status(TASK, status)
        statuses.apply_record(record.key, record.value, offset=0)
    return InternalTopicsContent(config=configs.snapshot(), statuses=statuses.snapshot())


END = topics().config.offset


@pytest.mark.parametrize("worker_id", ["there:8083", "there:8083/a->b"])
def test_a_group_whose_worker_says_in_these_topics_what_it_runs(worker_id):
    found = conflicting_connect_cluster.find_conflicting_cluster(
        [group(member("http://there:8083/", BOTH, END))],
        topics(worker_id=worker_id),
        own_group="own",
        own_address=OWN,
    )
    assert found == ConflictingCluster(
        group_id="other",
        evidence="worker there:8083 runs c-0, which the status topic confirms",
    )
    assert "group other" in str(found)
    assert "config.storage.topic" in str(found)


def test_a_group_that_runs_all_of_this_config_topic_may_be_one():
    members = [
        member("http://there:1/", ConnectorsAndTasks(connectors=("c",)), END),
        member("http://there:2/", ConnectorsAndTasks(tasks=(TASK,)), END),
    ]
    found = conflicting_connect_cluster.find_conflicting_cluster(
        [group(*members)], topics(), own_group="own", own_address=OWN
    )
    assert found is not None
    assert "2 connectors and tasks" in found.evidence
    assert not found.is_certain
    assert "may use" in str(found)


def test_what_is_certain_is_told_first():
    offset = group(member("http://away:8083/", BOTH, END), name="a")
    status = group(member("http://there:8083/", BOTH, END - 1), name="b")
    for groups in ([offset, status], [status, offset]):
        found = conflicting_connect_cluster.find_conflicting_cluster(
            groups, topics(worker_id="there:8083"), own_group="own", own_address=OWN
        )
        assert found is not None
        assert (found.group_id, found.is_certain) == ("b", True)


def test_what_the_own_group_runs_shows_nothing_of_others():
    """Two clusters of containers, with the same names and the same connectors."""
    other = group(member("http://there:8083/", BOTH, END - 1))
    own = group(member("http://there:8083/", BOTH, END), name="own")
    said = topics(worker_id="there:8083")
    assert (
        conflicting_connect_cluster.find_conflicting_cluster(
            [own, other], said, own_group="own", own_address=OWN
        )
        is None
    )
    elsewhere = group(member("http://away:8083/", BOTH, END), name="own")
    assert (
        conflicting_connect_cluster.find_conflicting_cluster(
            [elsewhere, other], said, own_group="own", own_address=OWN
        )
        is not None
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (group(member("http://there:8083/", BOTH, END), name="own"), topics()),
        (group(member("http://there:8083/", BOTH, END), kind="consumer"), topics()),
        (group(member("http://there:8083/", BOTH, END + 1)), topics()),
        (group(member("http://there:8083/", ConnectorsAndTasks(connectors=("c",)), END)), topics()),
        (
            group(member("http://there:8083/", connectors_and_tasks.NO_WORK, -1)),
            topics(configured=False),
        ),
        (group(member("http://there:8083/", BOTH, END - 1)), topics(worker_id="away:8083")),
        (
            group(member("http://there:8083/", BOTH, END - 1)),
            topics(worker_id="there:8083", state=UNASSIGNED),
        ),
        (group((b"\x00", b"junk"), (b"", b"")), topics(worker_id="there:8083")),
        (group(), topics()),
        (group(member(f"http://{OWN}/", BOTH, END - 1)), topics(worker_id=OWN)),
        (group(member("http://there:8083/", BOTH, END + 1)), topics(worker_id="there:8083")),
    ],
    ids=[
        "its own",
        "no workers",
        "another offset",
        "a part",
        "nothing configured",
        "another worker",
        "given back",
        "malformed",
        "empty",
        "of the same address",
        "of a longer topic",
    ],
)
def test_any_other_group_is_none(seen, said):
    assert (
        conflicting_connect_cluster.find_conflicting_cluster(
            [seen], said, own_group="own", own_address=OWN
        )
        is None
    )
