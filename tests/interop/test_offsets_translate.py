"""`mm2 offsets translate` and `OffsetTranslator` on real clusters: where groups go on, as Kafka's
own `kafka-consumer-groups --reset-offsets --from-file` then sets them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.client import Exact, NotReady, OffsetTranslator, mirror_client
from tests.interop import java_tools
from tests.support import checkpoints, cluster_access, eventually, kafka, mirror
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

GUIDE = Path(mirror_client.__file__).with_name("README.md")
PARTITIONS = 2
BASE_MS = cluster_access.CLOCK.wall_ms() + 600_000
"""Later than the time of any marker: Kafka counts those, too, when it looks for a time."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """`topic` is mirrored to west; both groups are half through it, `positions` by partition."""

    source: Properties
    target: Properties
    topic: str
    groups: tuple[str, str]
    settings: Path
    lost: Path
    positions: dict[int, int]

    @property
    def mirror(self) -> str:
        return f"east.{self.topic}"

    def translate(self, *words: str, file: Path | None = None, code: int = 0) -> str:
        path = file or self.settings
        done = mirror.mm2("offsets", "translate", *words, "--config", path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def record_there(self, partition: int, offset: int) -> bytes | None:
        return kafka.read_partition(self.target, self.mirror, partition, start=offset)[0].value

    def right_place(self, partition: int) -> int:
        """By the records alone: where the one stands that the groups read next."""
        at = self.positions[partition]
        value = kafka.read_partition(self.source, self.topic, partition, start=at)[0].value
        found = kafka.read_partition(self.target, self.mirror, partition)
        (place,) = [each.offset for each in found if each.value == value]
        assert place != at, "the offsets must not be the same on both sides"
        return place


def write(properties: Properties, topic: str) -> None:
    """An aborted transaction before, a committed one among the records."""
    for partition in range(PARTITIONS):
        for first, commit in ((0, False), (0, True), (20, True)):
            records = [
                Outgoing(
                    value=b"%d/%d" % (partition, each) if commit else b"nobody's",
                    partition=partition,
                    timestamp=BASE_MS + each * 1000,
                )
                for each in range(first, first + 20)
            ]
            kafka.produce_transaction(
                properties, topic, records, transactional_id=topic, commit=commit
            )


def checkpointed(target: Properties, group: str) -> dict[int, int]:
    """By partition, the offset on the source of the group's last checkpoint."""
    if "east.checkpoints.internal" not in kafka.topics(target):
        return {}
    every = [checkpoints.decoded(each) for each in checkpoints.read(target, "east")]
    return {each.partition.partition: each.upstream for each in every if each.group == group}


@pytest.fixture(scope="module")
def scene(
    east: SandboxCluster, west: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> Scene:
    folder = tmp_path_factory.mktemp("translate")
    topic = f"translated-{folder.name}"
    groups = f"{topic}-billing", f'{topic}-"audit"'
    source, target = east.client_properties(), west.client_properties()
    kafka.create_topic(source, topic, partitions=PARTITIONS)
    write(source, topic)
    positions = {
        number: kafka.read_partition(source, topic, number, isolation="read_committed")[30].offset
        for number in range(PARTITIONS)
    }
    for group in groups:
        places = {TopicPartition(topic, each): at for each, at in positions.items()}
        checkpoints.commit(source, group, places)
    given = mirror.settings(
        source,
        target,
        topics=[topic],
        groups=[f"{topic}.*"],
        spark={"engine": "inline"},
        emit_checkpoints_interval_seconds=1,
        refresh_groups_interval_seconds=1,
    )
    with Mirror(folder, given) as run:
        run.await_records(40 * PARTITIONS)
        eventually.eventually(
            lambda: all(checkpointed(target, each) == positions for each in groups),
            mirror.START_S,
            lambda: run.tail,
            interval_s=0.5,
        )
        assert run.stop() == 143, run.tail
    lost = folder / "lost.yaml"
    given["clusters"]["east"] = {"bootstrap.servers": "127.0.0.1:1"}
    lost.write_text(json.dumps(given))
    return Scene(
        source=source,
        target=target,
        topic=topic,
        groups=groups,
        settings=run.settings_path,
        lost=lost,
        positions=positions,
    )


def reset(scene: Scene, groups: Sequence[str], csv: str, folder: Path) -> None:
    """By Java's tool."""
    (folder / "offsets.csv").write_text(csv)
    named = " ".join(f"--group '{each}'" for each in groups)
    line = (
        f"kafka-consumer-groups.sh --bootstrap-server {scene.target['bootstrap.servers']} {named} "
        "--reset-offsets --from-file offsets.csv --execute"
    )
    ((code, said),) = java_tools.run([line], folder=folder)
    assert code == 0, said
    assert "NEW-OFFSET" in said, said


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.full), 2])
def test_javas_tool_sets_groups_by_the_file(scene: Scene, tmp_path: Path, count: int) -> None:
    groups = scene.groups[:count]
    words = [word for each in groups for word in ("--group", each)]
    csv = scene.translate(*words, "--csv")
    assert len(csv.splitlines()) == count * PARTITIONS
    reset(scene, groups, csv, tmp_path)
    for group in groups:
        for number in range(PARTITIONS):
            place = TopicPartition(scene.mirror, number)
            assert checkpoints.committed(scene.target, group, place) == scene.right_place(number)


def test_a_group_goes_on_and_comes_back(scene: Scene) -> None:
    table = scene.translate("--group", scene.groups[0])
    assert len(re.findall(r" 0 +exact$", table, re.MULTILINE)) == PARTITIONS
    (found,) = json.loads(scene.translate("--group", scene.groups[0], "--json"))["groups"]
    assert found["basis"] == "committed"
    there = {each["partition"]: each["translated_offset"] for each in found["offsets"]}
    assert there == {number: scene.right_place(number) for number in range(PARTITIONS)}
    group = f"{scene.groups[0]}-back"
    places = {TopicPartition(scene.mirror, each): at for each, at in there.items()}
    checkpoints.commit(scene.target, group, places)
    (back,) = json.loads(scene.translate("--group", group, "--back", "--json"))["groups"]
    assert {
        each["partition"]: each["translated_offset"] for each in back["offsets"]
    } == scene.positions
    assert {each["outcome"] for each in back["offsets"]} == {"exact"}


def test_when_the_source_is_lost_checkpoints_tell(scene: Scene) -> None:
    text = scene.translate("--group", scene.groups[0], "--json", file=scene.lost)
    (found,) = json.loads(text)["groups"]
    assert found["basis"] == "checkpoint"
    assert found["cluster_error"]
    there = {each["partition"]: each["translated_offset"] for each in found["offsets"]}
    assert there == {number: scene.right_place(number) for number in range(PARTITIONS)}


def test_a_time_is_a_record(scene: Scene) -> None:
    words = ["--topic", scene.topic, "--partition", "0", "--partition", "1", "--json"]
    at = str(BASE_MS + 30_000)
    places = json.loads(scene.translate(*words, "--timestamp", at))["offsets"]
    for each in places:
        record = scene.record_there(each["partition"], each["translated_offset"])
        assert record == b"%d/30" % each["partition"]
    lost = json.loads(scene.translate(*words, "--timestamp", at, file=scene.lost))["offsets"]
    assert [each["translated_offset"] for each in lost] == [
        each["translated_offset"] for each in places
    ]
    assert {each["basis"] for each in lost} == {"time on destination"}


def test_what_nobody_knows_is_no_success(scene: Scene) -> None:
    told = scene.translate("--topic", "nowhere", "--partition", "0", "--offset", "1", code=1)
    assert "unknown: the offset map has no replicated records of this partition" in told
    told = scene.translate("--group", f"{scene.topic}-nobody", code=1)
    assert "has no offsets on east" in told


def test_the_guides_example(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (code,) = (each for each in examples if "OffsetTranslator.connect" in each)
    offset = scene.positions[0]
    for written, meant in (
        ("backup:9092", scene.target["bootstrap.servers"]),
        ("primary:9092", scene.source["bootstrap.servers"]),
        ('"primary"', '"east"'),
        ('"billing"', repr(scene.groups[0])),
        ('"orders", 0, 4711', f"{scene.topic!r}, 0, {offset}"),
    ):
        assert written in code
        code = code.replace(written, meant)
    exec(compile(code, str(GUIDE), "exec"), {})
    place = scene.right_place(0)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{scene.topic}-0 {offset} is {scene.mirror}-0 {place}"
    assert said[-1] == f"{scene.mirror}-0 from {place} on: nothing is read again"


def test_every_offset_is_exact(scene: Scene) -> None:
    """Of a flow at rest; what is beyond its end is not ready."""
    found: list[Any] = []
    with OffsetTranslator.connect(scene.target, "east") as translator:
        _, end = kafka.offsets(scene.source, scene.topic)
        found = [translator.translate(scene.topic, 0, each) for each in range(end + 2)]
    assert {type(each) for each in found[:-1]} == {Exact}
    assert isinstance(found[-1], NotReady)
    offsets = [each.offset for each in found]
    assert offsets == sorted(offsets)
