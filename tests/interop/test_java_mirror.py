"""MirrorMaker 2's own records, offset syncs and checkpoints: Java's classes and ours agree.

Generated questions go to both; in each direction bytes are written by one and read by the other.
"""

from __future__ import annotations

import functools
import random
import re
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.client import MirrorClient
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint, Heartbeat, OffsetSync
from mm2.formats.primitive_types import MalformedRecordError, UnknownRecordVersionError
from mm2.offsets import group_offset_sync
from mm2.offsets.checkpoint_rules import CheckpointRules, CheckpointTable, OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState, TargetGroup
from mm2.offsets.offset_syncs import OffsetSyncStore, OffsetSyncWriter
from mm2.offsets.offset_translation import (
    EarlierOffset,
    ExactOffset,
    TranslatedOffset,
    UntranslatedReason,
)
from mm2.topics import replication_policy
from mm2.topics.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from tests.fakes.state_topics import FakeStateTopics
from tests.interop import java_mirror

Question = dict[str, Any]

LONG_MAX = (1 << 63) - 1
TEXTS = ("", "a", "orders", "A.orders", "größe", "日本", "🦀", "\0", 'q"\\', "x" * 32_767)
NUMBERS = (0, 1, -1, 255, 1 << 31, 1 << 40, LONG_MAX, -(1 << 63))
PARTITIONS = (0, 1, 7, -1, (1 << 31) - 1, -(1 << 31))
TYPES = ("sync", "checkpoint", "heartbeat")


@pytest.fixture
def rng() -> random.Random:
    return random.Random(13)


def some_values(rng: random.Random, kind: str) -> list[Any]:
    def text() -> str:
        drawn = "".join(chr(rng.choice((97, 46, 228, 0x65E5, 0x1F980))) for _ in range(5))
        return rng.choice((*TEXTS, drawn))

    def number() -> int:
        return rng.choice((*NUMBERS, rng.randrange(1 << 62)))

    if kind == "sync":
        return [text(), rng.choice(PARTITIONS), number(), number()]
    if kind == "checkpoint":
        return [text(), text(), rng.choice(PARTITIONS), number(), number(), text()]
    return [text(), text(), number()]


def as_sync(values: list[Any]) -> OffsetSync:
    topic, partition, upstream, downstream = values
    return OffsetSync(
        partition=TopicPartition(topic, partition), upstream=upstream, downstream=downstream
    )


def as_checkpoint(values: list[Any]) -> Checkpoint:
    group, topic, partition, upstream, downstream, metadata = values
    return Checkpoint(
        group=group,
        partition=TopicPartition(topic, partition),
        upstream=upstream,
        downstream=downstream,
        metadata=metadata,
    )


def sync_values(sync: OffsetSync) -> list[Any]:
    return [sync.partition.topic, sync.partition.partition, sync.upstream, sync.downstream]


def checkpoint_values(point: Checkpoint) -> list[Any]:
    where = [point.partition.topic, point.partition.partition]
    return [point.group, *where, point.upstream, point.downstream, point.metadata]


def written(kind: str, values: list[Any]) -> tuple[bytes, bytes]:
    if kind == "sync":
        return mirrormaker2_records.encode_offset_sync(as_sync(values))
    if kind == "checkpoint":
        return mirrormaker2_records.encode_checkpoint(as_checkpoint(values))
    source, target, at_ms = values
    return mirrormaker2_records.encode_heartbeat(
        Heartbeat(source=source, target=target, at_ms=at_ms)
    )


def read(kind: str, key: bytes, value: bytes) -> list[Any] | None:
    try:
        if kind == "sync":
            return sync_values(mirrormaker2_records.decode_offset_sync(key, value))
        if kind == "checkpoint":
            return checkpoint_values(mirrormaker2_records.decode_checkpoint(key, value))
        beat = mirrormaker2_records.decode_heartbeat(key, value)
    except MalformedRecordError:
        return None
    return [beat.source, beat.target, beat.at_ms]


def accepted(kind: str, values: list[Any] | None) -> list[Any] | None:
    """What our decoder makes of values that Java reads: offsets that no record can have are
    malformed, because Java's translation would overflow with them."""
    if kind == "sync" and values is not None:
        return values if all(0 <= each < 2**63 - 1 for each in values[-2:]) else None
    return values


def test_records_are_the_same_bytes_in_both_directions(tmp_path: Path, rng: random.Random) -> None:
    cases = [(kind, some_values(rng, kind)) for kind in TYPES for _ in range(200)]
    ours = [written(kind, values) for kind, values in cases]
    asked: list[Question] = [
        {"kind": "write", "type": kind, "values": values} for kind, values in cases
    ]
    asked += [
        {"kind": "read", "type": kind, "key": key.hex(), "value": value.hex()}
        for (kind, _), (key, value) in zip(cases, ours, strict=True)
    ]
    told = java_mirror.ask(tmp_path, asked)
    theirs, back = told[: len(cases)], told[len(cases) :]
    for (kind, values), (key, value), java, found in zip(cases, ours, theirs, back, strict=True):
        assert java == [key.hex(), value.hex()], (kind, values)
        assert found == values, (kind, values)
        assert read(kind, *map(bytes.fromhex, java)) == accepted(kind, values), (kind, values)


def test_bad_bytes_are_no_record_for_either(tmp_path: Path, rng: random.Random) -> None:
    cases = []
    for kind in TYPES:
        for _ in range(150):
            key, value = map(bytearray, written(kind, some_values(rng, kind)))
            cut = rng.choice((key, value))
            match rng.randrange(3):
                case 0:
                    del cut[rng.randrange(len(cut)) :]
                case 1:
                    cut += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
                case 2:
                    cut[:2] = rng.choice((b"\xff\xff", b"\x80\x00", b"\x7f\xff", b"\0\0"))
            if kind == "sync" or bytes(value[:2]) in {b"", b"\0", b"\0\0"}:  # no other version
                cases.append((kind, bytes(key), bytes(value)))
    assert len(cases) > 300
    told = java_mirror.ask(
        tmp_path,
        [
            {"kind": "read", "type": kind, "key": key.hex(), "value": value.hex()}
            for kind, key, value in cases
        ],
    )
    kinds = [kind for kind, *_ in cases]
    assert [read(*each) for each in cases] == list(map(accepted, kinds, told))
    assert None in told
    assert any(told)


def test_java_reads_any_version_as_its_own_and_we_refuse(tmp_path: Path) -> None:
    key, value = written("heartbeat", ["A", "B", 5])
    newer = b"\0\1" + value[2:]
    question = {"kind": "read", "type": "heartbeat", "key": key.hex(), "value": newer.hex()}
    assert java_mirror.ask(tmp_path, [question]) == [["A", "B", 5]]
    with pytest.raises(UnknownRecordVersionError):
        mirrormaker2_records.decode_heartbeat(key, newer)


def some_syncs(rng: random.Random) -> list[list[Any]]:
    steps = rng.choice(
        ((1,), (10,), (1, 1, 1, 50, 1000), (100, 200), (0, 1, 7), (1, 5, -3), (1 << 56, 1), (1, 2))
    )
    upstream = rng.choice((0, 0, 29, 1 << 40))
    syncs, downstream = [], 0
    for _ in range(rng.randrange(1, 120)):
        syncs.append(["t", rng.choice((0, 0, 0, 1)), upstream, downstream])
        step = rng.choice(steps)
        upstream = min(max(0, upstream + step), LONG_MAX)
        downstream += rng.choice((1, 1, 2, 10, -1)) if downstream else 1
    return syncs


def java_number(found: TranslatedOffset) -> int | None:
    match found:
        case ExactOffset(downstream=downstream):
            return downstream
        case EarlierOffset(downstream=downstream):
            return downstream
        case UntranslatedReason.TOO_OLD:
            return -1
        case _:
            return None


def our_state(table: OffsetSyncStore, question: Question) -> list[Any]:
    partition = TopicPartition(*question["partition"])
    slots = table.list_syncs(partition)
    kept = [
        [at, sync.upstream] for at, sync in enumerate(slots) if at == 0 or sync is not slots[at - 1]
    ]
    return [
        kept,
        [java_number(table.translate_downstream(partition, each)) for each in question["asked"]],
    ]


def our_store(question: Question) -> list[Any]:
    table = OffsetSyncStore(keep_history=not question["must read to end"])
    for values in question["loaded"]:
        table.apply_record(*mirrormaker2_records.encode_offset_sync(as_sync(values)))
    table.mark_ready()
    states = [our_state(table, question)]
    for values in question["then"]:
        table.apply_record(*mirrormaker2_records.encode_offset_sync(as_sync(values)))
        table.check_invariants()
        states.append(our_state(table, question))
    return states


def test_offset_syncs_are_kept_and_translated_alike(tmp_path: Path, rng: random.Random) -> None:
    questions: list[Question] = []
    for _ in range(150):
        syncs = some_syncs(rng)
        loaded = rng.choice((0, len(syncs), rng.randrange(len(syncs))))
        around = [max(0, each[2] + rng.choice((-1, 0, 1, 2, 40))) for each in syncs]
        questions.append(
            {
                "kind": "store",
                "must read to end": rng.random() < 0.5,
                "loaded": syncs[:loaded],
                "then": syncs[loaded:],
                "asked": [0, *rng.sample(around, min(len(around), 12))],
                "partition": ["t", 0],
            }
        )
    told = java_mirror.ask(tmp_path, questions)
    for question, java in zip(questions, told, strict=True):
        assert our_store(question) == java, question


def our_writer(question: Question) -> list[Any]:
    emitter = OffsetSyncWriter(question["lag"], in_flight_max=question["permits"])
    under_way: list[OffsetSync] = []
    found = []
    for step in question["steps"]:
        sent: list[OffsetSync] = []
        if step == "commit":
            emitter.promote_delayed_syncs()
        elif step == "fire":
            sent = emitter.take_due_syncs()
            under_way += sent
        elif step == "answer":
            if under_way:
                emitter.record_write_result(under_way.pop(0), stored=True)
        else:
            sync = as_sync(step)
            emitter.record_acknowledgement(
                sync.partition, upstream=sync.upstream, downstream=sync.downstream
            )
        queues = (sent, emitter.due_syncs.values(), emitter.delayed_syncs.values())
        found.append([[sync_values(each) for each in queue] for queue in queues])
    return found


def test_offset_syncs_are_written_alike(tmp_path: Path, rng: random.Random) -> None:
    questions: list[Question] = []
    for _ in range(150):
        places = {0: (0, 0), 1: (50, 7)}
        steps: list[Any] = []
        for _ in range(rng.randrange(1, 120)):
            action = rng.choice(("copy", "copy", "copy", "copy", "commit", "fire", "answer"))
            if action != "copy":
                steps.append(action)
                continue
            partition = rng.choice((0, 0, 1))
            up, down = places[partition]
            steps.append(["t", partition, up, down])
            up = max(0, up + rng.choice((1, 1, 1, 1, 1, 2, 0, -4)))
            down = max(0, down + rng.choice((1, 1, 1, 1, 1, 3, 30, 0, -9)))
            places[partition] = (up, down)
        questions.append(
            {
                "kind": "writer",
                "lag": rng.choice((0, 1, 2, 10, 100)),
                "permits": rng.choice((1, 2, 10)),
                "steps": steps,
            }
        )
    told = java_mirror.ask(tmp_path, questions)
    for question, java in zip(questions, told, strict=True):
        assert our_writer(question) == java, question


def our_policy(settings: dict[str, str]) -> ReplicationPolicy:
    separator = settings.get("replication.policy.separator", ".")
    default = DefaultReplicationPolicy(separator=separator, internal_separator=separator)
    if "source.cluster.alias" in settings:
        alias = settings["source.cluster.alias"]
        return IdentityReplicationPolicy(source_alias=alias, defaults=default)
    return default


def as_positions(
    given: list[list[Any]],
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    return {
        TopicPartition(topic, partition): None
        if offset is None
        else OffsetAndMetadata(offset=offset, metadata=note or "")
        for topic, partition, offset, note in given
    }


def takes_topic(question: Question, topic: str) -> bool:
    policy = our_policy(question["policy"])
    return not replication_policy.is_cycle(policy, topic, target_alias=question["target"])


def without_topics_of_the_target(question: Question, answer: list[Any]) -> list[Any]:
    """Without what Java makes of a topic that came from the target (`B.orders` becomes `orders`
    there): mm2 makes no checkpoints of such topics."""
    if question["policy"]:
        return answer  # the other policies see no source in this name
    made, to_write = answer
    kept = {
        group: [each for each in offsets if each[0] != "orders"]
        for group, offsets in to_write.items()
    }
    return [
        [[each for each in points if "orders" not in each] for points in made],
        {group: offsets for group, offsets in kept.items() if offsets},
    ]


def our_task(question: Question) -> list[Any]:
    syncs = OffsetSyncStore(keep_history=False)
    syncs.mark_ready()
    table = CheckpointTable(group_filter=lambda group: True)
    for values in question["standing"]:
        table.apply_record(*mirrormaker2_records.encode_checkpoint(as_checkpoint(values)))
    flow = CheckpointRules(
        source=question["source"],
        policy=our_policy(question["policy"]),
        takes_topic=functools.partial(takes_topic, question),
        translate=syncs.translate_downstream,
    )
    made = []
    for each in question["rounds"]:
        for values in each["syncs"]:
            syncs.add_sync(as_sync(values))
        group = each["group"]
        points = flow.find_new_checkpoints(
            group, as_positions(each["committed"]), table.get_group_checkpoints(group)
        )
        for point in points:
            table.store_published_checkpoint(point)
        made.append([checkpoint_values(p) for p in sorted(points, key=lambda p: str(p.partition))])
    to_write = {}
    for group in table.list_groups():
        seen = TargetGroup(state=GroupState.ABSENT)
        if group in question["idle"]:
            seen = TargetGroup(
                state=GroupState.EMPTY, positions=as_positions(question["idle"][group])
            )
        plan = group_offset_sync.plan_group_sync(group, table.get_group_checkpoints(group), seen)
        if plan.write:
            to_write[group] = [
                [at.topic, at.partition, position.offset, position.metadata]
                for at, position in sorted(plan.write.items(), key=lambda pair: str(pair[0]))
            ]
    return [made, to_write]


TOPICS = ("orders", "heartbeats", "C.orders", "B.orders", "x.y.z")


def some_round(rng: random.Random) -> dict[str, Any]:
    def offset() -> int | None:
        return rng.choice((None, rng.randrange(60), rng.randrange(60), rng.randrange(60)))

    at = {(rng.choice(TOPICS), rng.choice((0, 1))) for _ in range(4)}
    return {
        "group": rng.choice(("g1", "g2")),
        "syncs": [
            [topic, partition, rng.randrange(50), rng.randrange(50)]
            for topic, partition in rng.choices(sorted(at), k=rng.randrange(4))
        ],
        "committed": [[topic, partition, offset(), "note"] for topic, partition in sorted(at)],
    }


def test_checkpoints_are_made_and_groups_are_synced_alike(
    tmp_path: Path, rng: random.Random
) -> None:
    questions: list[Question] = []
    policies: tuple[dict[str, str], ...] = (
        {},
        {"replication.policy.separator": "_"},
        {"source.cluster.alias": "A"},
    )
    remote = ("A.orders", "orders", "A.C.orders", "A_orders")
    for _ in range(200):
        idle = {
            group: [
                [topic, number, rng.choice((None, rng.randrange(60))), "n"]
                for topic in rng.sample(remote, 2)
                for number in (0, 1)
            ]
            for group in ("g1", "g2", "g3")
            if rng.random() < 0.6
        }
        questions.append(
            {
                "kind": "task",
                "source": "A",
                "target": "B",
                "policy": rng.choice(policies),
                "standing": [
                    [group, topic, rng.choice((0, 1)), rng.randrange(60), rng.randrange(60), "old"]
                    for group in ("g1", "g3")
                    for topic in rng.sample(remote, 2)
                ],
                "idle": idle,
                "rounds": [some_round(rng) for _ in range(rng.randrange(1, 12))],
            }
        )
    told = java_mirror.ask(tmp_path, questions)
    for question, java in zip(questions, told, strict=True):
        made, to_write = java
        # Java says so, too, when there is nothing to write of a group without checkpoints.
        expected = [made, {group: offsets for group, offsets in to_write.items() if offsets}]
        ours = without_topics_of_the_target(question, our_task(question))
        assert ours == without_topics_of_the_target(question, expected), question
    assert sum(len(made) for rounds, _ in told for made in rounds) > 300
    assert sum(len(groups) for _, groups in told) > 100


ALIASES = ("A", "B", "C", "", "A.B")
IDENTITY = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "source.cluster.alias": "A",
}


def some_topics(rng: random.Random, separator: str) -> list[str]:
    words = ("A", "B", "C", "orders", "heartbeats", "checkpoints", "internal", "mm2", "", "__x")
    names = {
        separator.join(rng.choice(words) for _ in range(rng.randrange(1, 5))) for _ in range(12)
    }
    return sorted({*names, f"A{separator}heartbeats", f"C{separator}A{separator}heartbeats"})


def by_name(found: Any) -> list[list[Any]]:
    pairs = sorted(found.items(), key=lambda pair: str(pair[0]))
    return [[at.topic, at.partition, each.offset, each.metadata] for at, each in pairs]


def our_client(question: Question) -> dict[str, Any]:
    topics = FakeStateTopics(question["topics"])
    topics.topics[question["checkpoints topic"]] = [
        (bytes.fromhex(key), bytes.fromhex(value)) for key, value in question["records"]
    ]
    listing = FakeStateTopics(question["topics"])
    alias = question["remote alias"]
    with MirrorClient(question["policy"], topics=listing) as asked:
        hops = {each: asked.replication_hops(each) for each in question["aliases"]}
        found: dict[str, Any] = {
            "hops": {each: -1 if told is None else told for each, told in hops.items()},
            "remote of": {each: sorted(asked.remote_topics(each)) for each in question["aliases"]},
            "heartbeats": sorted(asked.heartbeat_topics()),
            "checkpoints": sorted(asked.checkpoint_topics()),
            "upstream": sorted(asked.upstream_clusters()),
            "remote": sorted(asked.remote_topics()),
        }
    with MirrorClient(question["policy"], topics=topics) as asked:
        groups = question["groups"]
        found["offsets"] = {
            each: by_name(asked.remote_consumer_offsets(each, alias, 9.0)) for each in groups
        }
        pattern = re.compile(question["pattern"])
        matching = asked.remote_consumer_offsets(pattern, alias, 9.0)
        found["matching"] = {group: by_name(each) for group, each in matching.items()}
    return found


def some_checkpoints(rng: random.Random) -> list[tuple[str, str]]:
    records = []
    for _ in range(rng.randrange(12)):
        group, topic = rng.choice(("g1", "g2", "xg1")), rng.choice(("A.orders", "A.t"))
        offsets = [rng.randrange(100), rng.randrange(100)]
        key, value = written("checkpoint", [group, topic, rng.choice((0, 1)), *offsets, "note"])
        records.append((key.hex(), value[: rng.choice((99, 99, 99, 5))].hex()))
    return records


def test_clients_say_the_same_of_the_same_topics(tmp_path: Path, rng: random.Random) -> None:
    questions: list[Question] = []
    for _ in range(100):
        separator = rng.choice((".", ".", "_", "__"))
        policy = {} if separator == "." else {"replication.policy.separator": separator}
        questions.append(
            {
                "kind": "client",
                "policy": policy if rng.random() < 0.6 else policy | IDENTITY,
                "topics": some_topics(rng, separator),
                "aliases": ALIASES,
                "remote alias": "A",
                "checkpoints topic": f"A{separator}checkpoints{separator}internal",
                "records": some_checkpoints(rng),
                "groups": ["g1", "g2", "g3"],
                "pattern": rng.choice(("g.*", "g1", ".*1", "x?g1", "nobody")),
            }
        )
    told = java_mirror.ask(tmp_path, questions)
    for question, java in zip(questions, told, strict=True):
        assert our_client(question) == java, question
    assert sum(hops > 1 for java in told for hops in java["hops"].values()) > 10
    assert sum(len(java["matching"]) for java in told) > 50
