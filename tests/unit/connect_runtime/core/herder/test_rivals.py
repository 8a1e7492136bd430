"""A group that runs what these topics say is told; any other is left in peace."""

import pytest

from connect_runtime.base import ids
from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import rivals
from connect_runtime.core.state import config_log, config_records, status_log, status_records

TASK = ids.ConnectorTaskId("c", 0)
BOTH = work.Work(connectors=("c",), tasks=(TASK,))
SPOKEN = protocol.Protocol.SESSIONED
RUNNING, UNASSIGNED = status_records.State.RUNNING, status_records.State.UNASSIGNED


def member(url: str, assigned: work.Work, offset: int) -> tuple[bytes, bytes]:
    state = protocol.WorkerState(url=url, config_offset=offset)
    assignment = protocol.Assignment(
        leader="m-1", leader_url=url, config_offset=offset, assigned=assigned
    )
    return (
        protocol.encode_metadata(state, SPOKEN),
        protocol.encode_assignment(assignment, SPOKEN),
    )


def group(*members: tuple[bytes, bytes], name: str = "other", kind: str = "connect"):
    return rivals.GroupSeen(group_id=name, protocol_type=kind, members=members)


def topics(*, worker_id: str | None = None, state=RUNNING, configured: bool = True):
    """One connector with one task, six records long."""
    configs, statuses = config_log.ConfigLog(), status_log.StatusLog()
    records = [
        *config_records.creation("c", {"name": "c"}, None),
        *config_records.task_configs("c", [{"n": "0"}]),
        config_records.commit("c", 1),
    ]
    for offset, each in enumerate(records if configured else ()):
        configs.apply(each.key, each.value, offset=offset)
    if worker_id is not None:
        status = status_records.Status(state=state, worker_id=worker_id, generation=3)
        record = status_records.status(TASK, status)
        statuses.apply(record.key, record.value, offset=0)
    return rivals.Topics(config=configs.snapshot(), statuses=statuses.snapshot())


END = topics().config.offset


def test_a_group_whose_worker_says_in_these_topics_what_it_runs():
    found = rivals.find(
        [group(member("http://there:8083/", BOTH, 99))],
        topics(worker_id="there:8083"),
        own_group="own",
    )
    assert found == rivals.Rival(
        group_id="other",
        evidence="worker there:8083 runs c-0, as the status topic says too",
    )
    assert "group other" in str(found)
    assert "config.storage.topic" in str(found)


def test_a_group_that_runs_all_of_this_config_topic():
    members = [
        member("http://there:1/", work.Work(connectors=("c",)), END),
        member("http://there:2/", work.Work(tasks=(TASK,)), END),
    ]
    found = rivals.find([group(*members)], topics(), own_group="own")
    assert found is not None
    assert "2 connectors and tasks" in found.evidence


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (group(member("http://there:8083/", BOTH, END), name="own"), topics()),
        (group(member("http://there:8083/", BOTH, END), kind="consumer"), topics()),
        (group(member("http://there:8083/", BOTH, END + 1)), topics()),
        (group(member("http://there:8083/", work.Work(connectors=("c",)), END)), topics()),
        (group(member("http://there:8083/", work.NO_WORK, -1)), topics(configured=False)),
        (group(member("http://there:8083/", BOTH, 99)), topics(worker_id="here:8083")),
        (
            group(member("http://there:8083/", BOTH, 99)),
            topics(worker_id="there:8083", state=UNASSIGNED),
        ),
        (group((b"\x00", b"junk"), (b"", b"")), topics(worker_id="there:8083")),
        (group(), topics()),
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
    ],
)
def test_any_other_group_is_none(seen, said):
    assert rivals.find([seen], said, own_group="own") is None
