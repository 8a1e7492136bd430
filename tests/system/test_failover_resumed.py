"""`mm2 failover` is killed and gone on with; hooks fail, hang and are mended meanwhile."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.base import plurals
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, mirror, moved_groups
from tests.support.moved_groups import Scene
from tests.support.standing_groups import Groups, Stands

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

DEADLINE_S = moved_groups.DEADLINE_S
MANY = 500
SLICE_S = 0.003
"""A command that is let go on for so long at a time is stopped amid what it does."""


def until(scene: Scene, step: str, *arguments: str) -> str:
    """Runs the command and kills it when it begins this step, "" never; what it said. Applications
    are stopped when that is asked for."""
    said = []
    with scene.moving(*arguments) as moving:
        assert moving.stdout is not None
        for line in moving.stdout:
            said.append(line)
            if line.startswith("stop-producers: no hook"):
                scene.writing.stop()
            if line.startswith("stop-consumers: no hook"):
                scene.here.stop()
            if step and line.startswith(f"{step}: "):
                moving.send_signal(signal.SIGKILL)
    text = "".join(said)
    expected = -signal.SIGKILL if step else 0
    assert moving.returncode == expected, text + scene.running.tail
    return text


def stands(scene: Scene) -> dict[int, int]:
    return moved_groups.positions(scene.target)


@pytest.mark.full
@pytest.mark.parametrize("planned", [True, False])
def test_a_move_that_is_killed_again_and_again_ends_as_an_undisturbed_one(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster], planned: bool
):
    """And who consumes there already, before the last attempt, is not set back."""
    scene = Scene(tmp_path, own_cluster)
    journal = ("--journal", str(tmp_path / "journal.jsonl"), "--quiescence", "1")
    kind = ("--planned",) if planned else ()
    with scene.running:
        scene.writing.start()
        scene.here.start()
        scene.await_work()
        if not planned:
            scene.here.stop()
            scene.writing.stop()
            scene.running.await_records(len(scene.writing.sent), topic=moved_groups.TOPIC)
        first = "agree" if planned else "stop-flow"
        until(scene, first, *kind, "--execute", *journal)
        for step in ("fence", "final-positions", "move-groups", "verify"):
            said = until(scene, step, "--resume", *journal)
            assert "journal: " in said
        before = stands(scene)
        with scene.there:
            eventually.eventually(
                lambda: scene.writing.sent <= {*scene.here.processed, *scene.there.processed},
                DEADLINE_S,
                "all is processed",
            )
            until(scene, "", "--resume", *journal)
        after = stands(scene)
    assert all(after[number] >= at for number, at in before.items())
    processed = scene.here.processed + scene.there.processed
    assert len(processed) == len(set(processed))
    assert set(processed) == scene.writing.sent
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == "report"
    assert lines[-1]["detail"]["unmoved"] == []


def killed_amid(moving: subprocess.Popen[str], groups: Groups) -> Stands:
    """Kills the command once some groups stand on the other cluster; where these stand then. It is
    let go on in slices."""

    def some() -> bool:
        moving.send_signal(signal.SIGCONT)
        threading.Event().wait(SLICE_S)
        moving.send_signal(signal.SIGSTOP)
        assert moving.poll() is None, "it has ended"
        return groups.stand() != {}

    eventually.eventually(some, DEADLINE_S, "some group is written")
    moving.send_signal(signal.SIGKILL)
    moving.wait()
    return groups.stand()


def test_a_move_that_is_killed_behind_its_fences_and_amid_its_groups_ends_exactly(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster]
):
    """Five hundred groups, each at a place of its own: every one goes on with the very record that
    it would have read next."""
    scene = Scene(tmp_path, own_cluster)
    path = tmp_path / "journal.jsonl"
    journal = ("--journal", str(path), "--quiescence", "1")
    with scene.running:
        with scene.writing, scene.here:
            scene.await_work()
            groups = Groups(scene.source, scene.target, MANY)
            groups.commit(moved_groups.TOPIC, partitions=moved_groups.PARTITIONS)
            said = until(scene, "final-positions", "--planned", "--execute", *journal)
            assert "VERIFIED fence: 3 fencing markers read back" in said
        assert groups.stand() == {}, "none is written before the positions are final"
        with scene.moving("--resume", *journal) as moving:
            assert moving.stdout is not None
            for line in moving.stdout:
                if line.startswith("move-groups: "):
                    break
            moving.send_signal(signal.SIGSTOP)
            amid = killed_amid(moving, groups)
        assert 0 < len(amid) < MANY
        said = until(scene, "", "--resume", *journal)
        positions = plurals.format_count((MANY + 1) * moved_groups.PARTITIONS, "position")
        assert f"VERIFIED verify: {positions}" in said
        stands = groups.stand()
        assert {name: stands[name] for name in amid} == amid
        groups.check(moved_groups.TOPIC, moved_groups.MIRROR)
        scene.finish_there()
    processed = scene.here.processed + scene.there.processed
    assert sorted(processed) == sorted(scene.writing.sent)
    report = json.loads(path.read_text().splitlines()[-1])["detail"]
    assert (report["reread_max"], report["unmoved"]) == (0, [])
    assert len(report["moved"]) == MANY + 1


FAILS = "echo the load balancer says no; exit 3"
HANGS = "echo waiting for the change window; sleep 100"
WAITS = "touch {folder}/asked; while [ ! -e {folder}/stopped ]; do sleep 0.1; done; echo done"


@pytest.mark.full
def test_a_hook_that_fails_and_one_that_hangs_are_mended_and_gone_on_with(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster]
):
    script, start = tmp_path / "stop-producers.sh", tmp_path / "start-consumers.sh"
    start.write_text(FAILS)
    hooks: dict[str, Any] = {
        "stop-producers": {"command": ["sh", str(script)], "timeout.ms": 20_000},
        "start-consumers": {"command": ["sh", str(start)]},
    }
    scene = Scene(tmp_path, own_cluster, hooks)
    path = tmp_path / "journal.jsonl"
    journal = ("--journal", str(path), "--quiescence", "1")
    with scene.running, scene.writing, scene.here:
        scene.await_work()
        script.write_text(FAILS)
        failed = scene.mm2("--planned", "--execute", *journal)
        assert failed.returncode == 1
        told = "hook stop-producers (sh) ended with 3; it said: the load balancer says no"
        assert told in failed.stderr
        set_timeout(scene, hooks, 1_000)
        script.write_text(HANGS)
        hung = scene.mm2("--resume", *journal)
        assert hung.returncode == 1
        told = "was killed after 1 s (timeout); last output: waiting for the change window"
        assert told in hung.stderr
        assert scene.writing.running  # and the flow copies on: nothing was stopped yet
        scene.running.await_records(len(scene.writing.sent) + 50, topic=moved_groups.TOPIC)
        set_timeout(scene, hooks, 60_000)
        script.write_text(WAITS.format(folder=tmp_path))
        with scene.moving("--resume", *journal) as moving:
            eventually.eventually((tmp_path / "asked").exists, DEADLINE_S, "the hook is run")
            scene.writing.stop()
            (tmp_path / "stopped").touch()
            assert moving.stdout is not None
            said = []
            for line in moving.stdout:
                said.append(line)
                if line.startswith("stop-consumers: no hook"):
                    scene.here.stop()
        assert moving.returncode == 1, "".join(said)
        told = "hook start-consumers (sh) ended with 3; it said: the load balancer says no"
        assert told in said[-1]
        (go_on,) = (each for each in said if each.startswith("start-consumers failed; "))
        start.write_text("echo $MM2_STEP $MM2_FROM $MM2_TO $MM2_FLOW")
        mended = mirror.mm2(*shlex.split(go_on.partition(" with: mm2 ")[2]))
        assert mended.returncode == 0, mended.stdout + mended.stderr
        assert "start-consumers had failed: hook start-consumers" in mended.stdout
        assert "no members on west yet: billing" in mended.stdout
        scene.finish_there()
    processed = scene.here.processed + scene.there.processed
    assert sorted(processed) == sorted(scene.writing.sent)
    done = {
        each["step"]: each["detail"]
        for each in map(json.loads, path.read_text().splitlines())
        if each["what"] == "done"
    }
    assert done["stop-producers"] == {"output": "done"}
    assert done["start-consumers"] == {"output": "start-consumers east west east->west"}


def set_timeout(scene: Scene, hooks: dict[str, Any], timeout_ms: int) -> None:
    path = scene.running.settings_path
    given = json.loads(path.read_text())
    given["hooks"] = hooks | {
        "stop-producers": hooks["stop-producers"] | {"timeout.ms": timeout_ms}
    }
    path.write_text(json.dumps(given))
