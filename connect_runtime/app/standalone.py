"""A worker alone, with its connectors: what `connect-standalone` runs. Java: ConnectStandalone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connect_runtime.adapters.files import offset_file
from connect_runtime.adapters.kafka import topic_admin
from connect_runtime.app import worker_core, worker_process
from connect_runtime.app.settings import connector_files, standalone
from connect_runtime.base import errors
from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import requests
from connect_runtime.ports import group
from connect_runtime.runtime.herding import alone_group
from connect_runtime.runtime.stores import memory_log
from connect_runtime.system import clock

CREATE_S = 60.0
"""How long validating and taking up one connector may take."""


def worker(settings: standalone.Settings) -> worker_process.WorkerProcess:
    """Not started. Raises `FatalError` on settings that the client library refuses."""

    def make_group(around: worker_core.Around) -> group.Group:
        return alone_group.AloneGroup(
            around.url, around.configs.snapshot, clock=clock.SystemClock()
        )

    def kind(on_broken: Callable[[str], None]) -> worker_core.Kind:
        return worker_core.Kind(
            settings=settings,
            config=settings.config,
            config_log=memory_log.MemoryLog("configurations in memory"),
            status_log=memory_log.MemoryLog("statuses in memory"),
            offset_log=offset_file.OffsetFile(settings.offset_file, on_broken=on_broken),
            fenced=None,
            admin=topic_admin.TopicAdmin(
                settings.access, client_id="connect-admin", clock=clock.SystemClock()
            ),
            make_group=make_group,
            offers=protocol.Protocol.COMPATIBLE,
            among_peers=False,
            check=lambda _: None,
        )

    return worker_process.WorkerProcess(kind)


def create(
    process: worker_process.WorkerProcess, connectors: Sequence[connector_files.Connector]
) -> None:
    """Create them on a started worker, one after the other. Raises `FatalError` for the first that
    is refused, and what is wrong with it."""
    assert process.core.herder is not None
    for each in connectors:
        request = requests.PutConnector(
            connector=each.name,
            config=each.config,
            target_state=each.target_state,
            replace=False,
        )
        what = f"creating connector {each.name}"
        try:
            reply = process.core.herder.submit(request).result(CREATE_S)
        except TimeoutError:
            raise errors.FatalError(f"{what}: nothing came of it within {CREATE_S:g} s") from None
        except errors.ConnectError as error:
            raise errors.FatalError(f"{what}: {error}") from error
        if isinstance(reply, requests.Refused):
            raise errors.FatalError(f"{what}: {reply.message}")
