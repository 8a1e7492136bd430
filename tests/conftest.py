"""What every test may ask for. Nothing heavy is imported or started unless a test asks."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.support import debian_tools, examples

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster
    from tests.support.connect_workers import Group


# Without a deadline for each example: a shared machine pauses, and that is no failure.
hypothesis.settings.register_profile("mm2", deadline=None, max_examples=examples.of(100))
hypothesis.settings.load_profile("mm2")

_NEED_BROKERS = frozenset({"integration", "system", "chaos", "bench"})
_LONG_FILES = ("tests/chaos/", "tests/system/", "tests/interop/")


@pytest.fixture(scope="session")
def east() -> Iterator[SandboxCluster]:
    """A single broker shared by all tests of this process: use your own topics, break nothing."""
    yield from _shared_cluster("east")


@pytest.fixture(scope="session")
def west() -> Iterator[SandboxCluster]:
    """A second cluster, under the same rules as `east`."""
    yield from _shared_cluster("west")


@pytest.fixture
def own_cluster() -> Iterator[Callable[..., SandboxCluster]]:
    """Starts clusters (arguments of `SandboxCluster`) that the test may break; closes them."""
    from mm2.sandbox.sandbox_cluster import SandboxCluster

    started: list[SandboxCluster] = []

    def start(name: str = "own", **options: Any) -> SandboxCluster:
        started.append(SandboxCluster(name, **options))
        return started[-1].start()

    try:
        yield start
    finally:
        for each in started:
            each.close()


@pytest.fixture
def connect_group(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """Makes groups of Connect workers, on `east` where no client properties are given.

    Arguments are those of `Group` but `folder`; the group's id, and with it the
    topics, are the test's own. Workers that run at the end of the test are killed.
    """
    from tests.support.connect_workers import Group

    counter = itertools.count(1)
    with contextlib.ExitStack() as groups:

        def make(client: Mapping[str, str] | None = None, **options: Any) -> Group:
            number = next(counter)
            folder = tmp_path / f"workers-{number}"
            folder.mkdir()
            if client is None:
                client = request.getfixturevalue("east").client_properties()
            group_id = f"{_own_name(request)}-{number}"
            made = Group(client, group_id, folder=folder, **options)
            return groups.enter_context(made)

        yield make


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topic names that no other test uses: `topic()`, `topic("orders")`."""
    counter = itertools.count(1)

    def name(label: str = "t") -> str:
        return f"{_own_name(request)}-{label}-{next(counter)}"

    return name


def _own_name(request: pytest.FixtureRequest) -> str:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    test = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name).strip("-")[:80]
    return f"{test}-{worker}"


def _shared_cluster(name: str) -> Iterator[SandboxCluster]:
    from mm2.sandbox.sandbox_cluster import SandboxCluster

    with SandboxCluster(name) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders with long files go first: at the end all processes have something short left."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG_FILES))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is done once, before the first test.

    The jars of the brokers are fetched now, and archives of classes made: that may take longer
    than a test may.
    """
    if session.config.option.collectonly:
        return
    gc.freeze()  # thousands of tests are no garbage, and need not be looked through again and again
    if any(
        marker.name in _NEED_BROKERS for item in session.items for marker in item.iter_markers()
    ):
        from connect_runtime.base.errors import FatalError
        from mm2.sandbox import java_class_archive, kafka_jars, kafka_releases
        from tests.support import spark_archive

        capture = session.config.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled():
                for version in _kafka_versions(
                    session, newest=kafka_releases.NEWEST_RELEASE.version
                ):
                    release = kafka_releases.find_release(version)
                    java_class_archive.ensure_class_archive(
                        kafka_jars.ensure_jars(release.jars), release
                    )
                if any(item.get_closest_marker("system") for item in session.items):
                    spark_archive.prepare()
        except FatalError:
            return  # the fixtures will say so, to the tests that need brokers


def _kafka_versions(session: pytest.Session, *, newest: str) -> list[str]:
    """The newest, and what the tests name: `@pytest.mark.kafka_versions("2.8")`."""
    named = {
        version
        for item in session.items
        for marker in item.iter_markers("kafka_versions")
        for version in marker.args
    }
    return [newest, *sorted(named)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI all that tests need is there: nothing may skip, but for want of a Docker daemon."""
    report = yield
    if not _in_ci() or not report.skipped or hasattr(report, "wasxfail"):
        return report
    if item.get_closest_marker("docker") is None:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, which counts as a failure: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself as a whole."""
    report = yield
    if _in_ci() and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, which counts as a failure: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last words: what was left out for want of a package, and what to type to have it."""
    reasons = [str(each.longrepr) for each in terminalreporter.stats.get("skipped", ())]
    for line in debian_tools.told(reasons):
        terminalreporter.write_line(line, yellow=True)


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"
