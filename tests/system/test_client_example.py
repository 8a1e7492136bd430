"""The example in the client's README moves a consumer group to the other cluster: it resumes after
its committed offset there and reads each remaining record once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connect_runtime.base.ids import TopicPartition
from tests.support import checkpoints, eventually, kafka, mirror
from tests.support.kafka import Outgoing
from tests.support.mirror import Mirror

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

README = mirror.ROOT / "mm2" / "client" / "README.md"
LINES = 12
RECORDS, TAIL = 160, 100
"""The group had come to the last `TAIL` of them. More than it reads would be waited for."""


def example() -> str:
    """The code that asks where a group goes on; there is one."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (code,) = (each for each in blocks if "translate_offsets(" in each)
    assert len(code.splitlines()) == LINES
    return code


def test_a_group_with_an_uncommitted_tail_goes_on(
    tmp_path: Path,
    east: SandboxCluster,
    west: SandboxCluster,
    topic,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = example()
    source, target = east.client_properties(), west.client_properties()
    name = kafka.create_topic(source, topic("orders"))
    place = TopicPartition(name, 0)
    group = f"billing-{name}"
    records = [Outgoing(value=b"v%d" % each) for each in range(RECORDS)]
    aborted = [Outgoing(value=b"nobody's")] * 3  # offsets are others on the mirror
    kafka.produce_transaction(source, name, aborted, transactional_id=name, commit=False)
    kafka.produce(source, name, records)
    stood = kafka.read_partition(source, name)[-TAIL].offset
    checkpoints.commit(source, group, {place: stood})
    given = mirror.settings(
        source,
        target,
        topics=[name],
        groups=[group],
        spark={"engine": "inline"},
        emit_checkpoints_interval_seconds=1,
        refresh_groups_interval_seconds=1,
    )
    with Mirror(tmp_path, given) as run:
        run.await_records(RECORDS)
        there = kafka.read_partition(target, f"east.{name}")[-TAIL:]
        assert there[0].offset != stood
        eventually.eventually(
            lambda: checkpoints.points(target, "east", group)[-1:] == [(stood, there[0].offset)],
            mirror.START_S,
            lambda: run.tail,
            interval_s=0.5,
        )
        assert run.stop() == 143, run.tail

    for written, meant in (
        ("backup:9092", target["bootstrap.servers"]),
        ('"primary"', '"east"'),
        ('"billing"', f'"{group}"'),
    ):
        assert written in code
        code = code.replace(written, meant)
    exec(compile(code, str(README), "exec"), {})

    assert capsys.readouterr().out.splitlines() == [
        f"east.{name} 0 {each.offset} {each.value!r}" for each in there
    ]
    assert [each.value for each in there] == [each.value for each in records[-TAIL:]]
    assert kafka.committed_offset(target, group, f"east.{name}") == there[-1].offset + 1
