"""What `mm2 failover` says on the worst day: how much is read again where the source died after the
last checkpoint, which groups are not moved, and what it asks before it does anything."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.sandbox_errors import SandboxError
from tests.support import cluster_access, eventually, kafka, mirror, moved_groups, other_groups
from tests.support.moved_groups import Scene

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
EARLY, LATE, WAIT_S = 50, 150, 60.0
PLACES = [TopicPartition(moved_groups.TOPIC, number) for number in range(moved_groups.PARTITIONS)]


@pytest.fixture
def scene(tmp_path: Path, own_cluster: Callable[..., SandboxCluster]) -> Scene:
    return Scene(tmp_path, own_cluster)


def commit(at: SandboxCluster, offset: int) -> None:
    """The group's offset in every partition."""
    groups = KafkaGroups(cluster_access.of(at), client_id="test-commit", clock=cluster_access.CLOCK)
    given = dict.fromkeys(PLACES, OffsetAndMetadata(offset=offset))
    with contextlib.closing(groups):
        assert groups.commit_offsets({moved_groups.GROUP: given}, WAIT_S).failed == {}


def on_terminal(scene: Scene, typed: str, *arguments: str) -> tuple[int, str]:
    """The exit code and all that a person sees who types this when asked."""
    ours, theirs = pty.openpty()
    command = [*mirror.COMMAND, *moved_groups.MOVE, "--config", str(scene.running.settings_path)]
    with subprocess.Popen(
        [*command, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=mirror.ROOT
    ) as running:
        os.close(theirs)
        said = b""
        asked = False
        with contextlib.suppress(OSError), open(ours, "r+b", buffering=0) as terminal:
            while chunk := terminal.read(4096):  # ends with an error once the command has
                said += chunk
                if not asked and b"to confirm:" in said:
                    asked = True
                    terminal.write(typed.encode() + b"\n")
        return running.wait(WAIT_S), said.decode().replace("\r\n", "\n")


def test_a_source_that_dies_after_the_last_checkpoint(scene: Scene):
    journal = scene.folder / "journal.jsonl"
    with scene.running:
        with scene.writing:
            eventually.eventually(
                lambda: len(scene.writing.sent) > 1_000, moved_groups.DEADLINE_S, "1,000 written"
            )
        scene.running.await_records(1_000, topic=moved_groups.TOPIC)
        commit(scene.east, EARLY)

        # Groups of other kinds are named, and forbid until they are accepted.
        other_groups.share_group(scene.east, "pool", {PLACES[0]: 7})
        other_groups.streams_group(scene.east, "topology", {PLACES[0]: 9})
        named = scene.plan()
        assert named["verdict"] == "no-go"
        assert [(each["group"], each["type"]) for each in named["unmoved_groups"]] == [
            ("pool", "share"),
            ("topology", "streams"),
        ]
        codes = {each["code"] for each in named["findings"] if each["severity"] == "no-go"}
        assert codes == {"share-group", "streams-group"}
        by_csv = translate(scene, "--group", "topology", "--csv")
        assert by_csv.stdout.startswith(f"{moved_groups.MIRROR},0,"), by_csv.stderr
        accepted = scene.plan("--accept", "share-group:pool", "--accept", "streams-group:topology")
        assert accepted["verdict"] == "go-at-a-cost"

        beyond = translate(
            scene, "--topic", moved_groups.TOPIC, "--partition", "0", "--offset", "9999999"
        )
        _, end = kafka.offsets(scene.source, moved_groups.TOPIC, 0)
        assert beyond.returncode == 1
        assert f"beyond the log end ({end})" in beyond.stdout

        # The last checkpoint is that of EARLY; nobody sees the group come to LATE.
        eventually.eventually(
            lambda: (
                [
                    each["committed"]
                    for group in scene.plan("--origin-lost")["groups"]
                    for each in group["partitions"]
                ]
                == [EARLY] * len(PLACES)
            ),
            moved_groups.DEADLINE_S,
            "checkpoints of all partitions",
        )
        scene.running.signal(signal.SIGSTOP)
        commit(scene.east, LATE)
        scene.east.kill()
        again = len(PLACES) * (LATE - EARLY)

        planned = scene.plan()
        assert planned["verdict"] == "go-at-a-cost"
        assert planned["reread"].startswith("unknown, at most ")
        assert planned["reread_max"] >= again
        (group,) = planned["groups"]
        assert {each["basis"] for each in group["partitions"]} == {"checkpoint"}

        by_checkpoint = translate(scene, "--group", moved_groups.GROUP)
        rows = [line for line in by_checkpoint.stdout.splitlines() if "checkpoint, " in line]
        assert len(rows) == len(PLACES)
        assert all(row.endswith("earlier") and "unknown" in row for row in rows)

        execute = ("--origin-lost", "--execute", "--journal", str(journal))
        # A person is asked, and nothing is changed until the right name is typed.
        code, said = on_terminal(scene, "yes", *execute)
        assert code == 1, said
        assert "does not match the flow's name; nothing was changed" in said
        assert not journal.exists()
        with pytest.raises(SandboxError, match="has no committed offsets for"):
            moved_groups.positions(scene.target)
        code, said = on_terminal(scene, "east->west", *execute)
        assert code == 0, said
        report = said[said.index("done in") :]
        assert "1 group moved, re-read: unknown, at most " in report
        assert "at most 0 records" not in said
        scene.running.signal(signal.SIGCONT)

    stands = moved_groups.positions(scene.target)
    held = sum(
        kafka.offsets(scene.target, moved_groups.MIRROR, number)[1] - at
        for number, at in stands.items()
    )
    assert again <= held


def translate(scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    return mirror.mm2(
        *("offsets", "translate", "--flow", "east->west"),
        "--config",
        scene.running.settings_path,
        *arguments,
    )
