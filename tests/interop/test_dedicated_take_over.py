"""One `mm2.properties`, and MirrorMaker in its dedicated mode: Java's nodes are replaced by ours,
and ours by Java's, all at once or one after the other, while records keep coming."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mm2.sandbox.log_comparison import DifferenceKind
from tests.interop.dedicated_nodes import WAIT_S, Kind, Mirroring
from tests.support import eventually
from tests.support.who_wrote import Doubled

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1800)]

_log = logging.getLogger(__name__)

WAITS = "never reported that it stopped"
JAVAS = pytest.mark.parametrize("java", [Kind.JAVA, Kind.JAVA_3_9], ids=["4.3", "3.9"])


@pytest.fixture
def mirroring(
    tmp_path: Path, west: SandboxCluster, east: SandboxCluster, topic: Callable[..., str]
) -> Iterator[Mirroring]:
    with Mirroring(tmp_path, west, east, topic()[:60]) as made:
        yield made


@JAVAS
def test_all_at_once_there_and_back(mirroring: Mirroring, java: Kind) -> None:
    mirroring.start("java", java)
    mirroring.moves()
    mirroring.stop("java")
    ours = mirroring.start("ours", Kind.OURS)
    mirroring.moves()
    assert WAITS not in ours.log()
    mirroring.stop("ours")
    mirroring.start("back", java)
    mirroring.moves()
    found = mirroring.complete()
    assert found.is_equal, str(found)


@JAVAS
def test_java_is_killed_and_we_go_on_without_a_double(mirroring: Mirroring, java: Kind) -> None:
    mirroring.start("java", java)
    mirroring.moves()
    mirroring.moves()
    mirroring.kill("java")
    mirroring.start("ours", Kind.OURS)
    mirroring.moves()
    found = mirroring.complete()
    assert found.is_equal, str(found)


def test_what_a_frozen_java_sends_while_it_is_waited_for_is_not_copied_again(
    mirroring: Mirroring,
) -> None:
    """It comes before our first copy, which finds it. Java may double what it sent unanswered."""
    frozen = mirroring.start("java", Kind.JAVA)
    mirroring.moves()
    frozen.freeze()
    ours = mirroring.start("ours", Kind.OURS)
    eventually.eventually(lambda: WAITS in ours.log(), WAIT_S, mirroring.logs)
    before = mirroring.mirrored()
    frozen.thaw()
    eventually.eventually(lambda: mirroring.mirrored() > before, WAIT_S, mirroring.logs)
    mirroring.kill("java")
    doubled = mirroring.doubled()
    mirroring.moves()
    judged(mirroring, doubled)


@JAVAS
def test_one_after_the_other_there_and_back(mirroring: Mirroring, java: Kind) -> None:
    """Whoever leads, the other reads what it hands out; whoever leaves in order leaves nothing to
    be copied again."""
    for name in ("java-1", "java-2"):
        mirroring.start(name, java)
    mirroring.shared()
    mirroring.moves()
    seen: set[tuple[Kind, Kind]] = set()
    for gone, comes, kind in (
        ("java-1", "ours-1", Kind.OURS),
        ("java-2", "ours-2", Kind.OURS),
        ("ours-1", "back-1", java),
        ("ours-2", "back-2", java),
    ):
        mirroring.stop(gone)
        mirroring.shared()
        mirroring.start(comes, kind)
        mirroring.shared()
        mirroring.more()
        mirroring.moves()
        runners = mirroring.shared()
        if set(runners.values()) == {Kind.OURS}:
            continue
        leader = mirroring.leader()
        seen |= {(leader, runner) for runner in runners.values()}
        _log.info("%s -> %s: %s leads, %s run", gone, comes, leader, runners)
    assert {(java, Kind.OURS), (Kind.OURS, java)} <= seen, seen
    for name in ("back-1", "back-2"):
        mirroring.stop(name)
    mirroring.start("last", Kind.OURS)
    mirroring.moves()
    found = mirroring.complete()
    assert found.is_equal, str(found)


@JAVAS
def test_killed_one_after_the_other_only_java_doubles(mirroring: Mirroring, java: Kind) -> None:
    """Java copies again what nobody had stored, and that is all; what it had copied we find."""
    for name in ("java-1", "java-2"):
        mirroring.start(name, java)
    _one_is_killed(mirroring, "java-1")
    mirroring.start("ours-1", Kind.OURS)
    _one_is_killed(mirroring, "java-2")
    mirroring.start("ours-2", Kind.OURS)
    _one_is_killed(mirroring, "ours-1")
    mirroring.start("back", java)
    _one_is_killed(mirroring, "ours-2")
    mirroring.start("again", Kind.OURS)
    _one_is_killed(mirroring, "back")
    mirroring.start("last", Kind.OURS)
    doubled = mirroring.doubled()
    _one_is_killed(mirroring, "again")
    judged(mirroring, doubled)


def judged(mirroring: Mirroring, before: Doubled) -> None:
    """Nothing is wrong with the mirror but what was doubled `before`, by Java alone."""
    found = mirroring.complete()
    assert mirroring.doubled() == before
    assert before.by_us == 0, before
    faults = {kind: found.count(kind) for kind in DifferenceKind if found.count(kind)}
    assert faults.keys() <= {DifferenceKind.DUPLICATED}, str(found)
    assert faults.get(DifferenceKind.DUPLICATED, 0) == before.by_others, str(found)


def _one_is_killed(mirroring: Mirroring, name: str) -> None:
    """Of two; the other goes on alone."""
    mirroring.shared()
    mirroring.moves()
    before = mirroring.doubled()
    left = mirroring.kill(name)
    mirroring.shared()
    mirroring.moves()
    (heir,) = mirroring.living
    after = mirroring.doubled()
    doubled = after.by_others - before.by_others
    _log.info("%s killed, %s not stored, %s goes on: %s doubled", name, left, heir, doubled)
    assert after.by_us == 0, after
    assert doubled <= (0 if mirroring.nodes[heir].kind is Kind.OURS else left)
