"""What one flow runs with: its worker, its three connectors, made of the file's flat properties."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.app.settings import distributed, internal_rest
from connect_runtime.base import request_origin
from mm2.app.settings import mirror_maker_keys as keys
from mm2.app.settings import settings as app_settings
from mm2.app.settings import workers
from mm2.core import commands
from mm2.core.configs import dedicated, own_keys, own_values
from mm2.core.copy import record_transforms

SOURCE, HEARTBEAT, CHECKPOINT = dedicated.CONNECTORS
"""The names of a flow's connectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    """`worker_props` are what `worker` was read from; `connectors` have `${…}` as it stands.

    `file` is the absolute path of the file that configures it.
    `source` is the mirror's configuration with it filled in. `shown`: it mirrors, else it is there
    for its heartbeats alone. `restart_max` as in `restarts.Restarts`.
    """

    ends: dedicated.Ends
    worker: distributed.Settings = field(repr=False)
    worker_props: Mapping[str, str] = field(repr=False)
    connectors: Mapping[str, Mapping[str, str]] = field(repr=False)
    source: Mapping[str, str] = field(repr=False)
    shown: bool
    restart_max: int
    file: str = commands.MM2_FILE

    @property
    def name(self) -> str:
        return str(self.ends)

    @property
    def resume(self) -> str:
        """The command that resumes it after a pause or stop."""
        return commands.Operator(file=self.file).go_on(self.name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which flows of a file this process runs, and how fast at most.

    `near`: only flows to these clusters; `names`: only these; empty: all. `throttle` 0: no limit.
    `java_stopped`: nothing that Java's MirrorMaker may still send is waited for.
    """

    near: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    throttle: int = 0
    java_stopped: bool = False


EVERYTHING = Choice()


def plans(
    settings: app_settings.Settings, choice: Choice, *, environment: Mapping[str, str]
) -> list[FlowPlan]:
    """Raises `SettingsError` where a worker's settings are wrong, and `ConfigError`."""
    flat = settings.flat
    resolved = flat.resolve(flat.props)
    mirroring = {flow.name for flow in settings.flows}
    return [
        _plan(settings, ends, choice, mirroring=mirroring, environment=environment)
        for ends in dedicated.flows(resolved, near=choice.near)
        if not choice.names or str(ends) in choice.names
    ]


def _plan(
    settings: app_settings.Settings,
    ends: dedicated.Ends,
    choice: Choice,
    *,
    mirroring: Collection[str],
    environment: Mapping[str, str],
) -> FlowPlan:
    flat = settings.flat
    connectors = {
        name: {key: value for key, value in config.items() if _is_for(name, key)}
        for name, config in dedicated.connectors(flat.props, ends).items()
    }
    if choice.throttle:
        source = connectors[SOURCE]
        given = flat.resolve(source).get(own_keys.THROTTLE)
        least = min(choice.throttle, own_values.read_rate(given) if given else choice.throttle)
        source[own_keys.THROTTLE] = str(least)
    connectors[SOURCE].pop(own_keys.JAVA_STOPPED, None)  # a file says it for good
    if choice.java_stopped:
        connectors[SOURCE][own_keys.JAVA_STOPPED] = "true"
    props = workers.props(flat, ends)
    worker = distributed.derived(props, workers.source(settings.file, environment=environment))
    access = dataclasses.replace(worker.access, name=ends.target)
    return FlowPlan(
        ends=ends,
        restart_max=workers.restart_max(flat, ends),
        worker=dataclasses.replace(worker, access=access),
        worker_props=props,
        connectors=connectors,
        source=flat.resolve(connectors[SOURCE]),
        shown=str(ends) in mirroring,
        file=os.path.abspath(settings.file),
    )


def _is_for(connector: str, key: str) -> bool:
    """Of heartbeats and checkpoints no record is transformed: who reads them knows their form."""
    about = key in record_transforms.LISTS or key.startswith(record_transforms.FAMILIES)
    return key not in keys.ABOUT_RECORDS and (connector == SOURCE or not about)


def hosts(
    settings: app_settings.Settings, *, environment: Mapping[str, str]
) -> request_origin.AllowedHosts:
    """Under which host names the status page may be asked. Raises `SettingsError`."""
    return workers.hosts(settings.flat, workers.source(settings.file, environment=environment))


def rest(
    settings: app_settings.Settings, *, environment: Mapping[str, str]
) -> internal_rest.InternalRest | None:
    """How the nodes of a group reach each other; None: they do not. Raises `SettingsError`."""
    return workers.rest(settings.flat, workers.source(settings.file, environment=environment))
