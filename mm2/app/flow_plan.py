"""What one flow runs with: its worker, its three connectors, made of the file's flat properties."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.app.settings import distributed, internal_rest, problems, worker_reader
from mm2.app.settings import mirror_maker_keys as keys
from mm2.app.settings import settings as app_settings
from mm2.core.configs import dedicated, own_keys, own_values
from mm2.core.copy import record_transforms

SOURCE, HEARTBEAT, CHECKPOINT = dedicated.CONNECTORS
"""The names of a flow's connectors."""
RESTART_MAX = 10
"""How often in a row something that fails is started again, unless the file says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    """`worker_props` are what `worker` was read from; `connectors` have `${…}` as it stands.

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

    @property
    def name(self) -> str:
        return str(self.ends)


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
    props = dedicated.worker(flat.props, ends, resolve=flat.resolve)
    for key in keys.NOT_OF_WORKERS:
        props.pop(key, None)
    restart_max = _restart_max(settings, props.pop(keys.RESTART_MAX, None))
    return FlowPlan(
        ends=ends,
        restart_max=restart_max,
        worker=distributed.derived(props, _source(settings, environment)),
        worker_props=props,
        connectors=connectors,
        source=flat.resolve(connectors[SOURCE]),
        shown=str(ends) in mirroring,
    )


def _is_for(connector: str, key: str) -> bool:
    """Of heartbeats and checkpoints no record is transformed: who reads them knows their form."""
    about = key in record_transforms.LISTS or key.startswith(record_transforms.FAMILIES)
    return key not in keys.ABOUT_RECORDS and (connector == SOURCE or not about)


def _restart_max(settings: app_settings.Settings, text: str | None) -> int:
    given = (text or str(RESTART_MAX)).strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", given):
        places = settings.flat.places
        found = (each for each in places if each.endswith(keys.RESTART_MAX))
        line, key = places.get(next(found, ""), (0, keys.RESTART_MAX))
        problem = problems.Problem(
            line=line, key=key, text="is not allowed", allowed="a whole number, or -1: always"
        )
        raise problems.SettingsError(settings.file, [problem])
    return int(given)


def rest(
    settings: app_settings.Settings, *, environment: Mapping[str, str]
) -> internal_rest.InternalRest | None:
    """How the nodes of a group reach each other; None: they do not. Raises `SettingsError`."""
    resolved = settings.flat.resolve(settings.flat.props)
    if resolved.get(dedicated.INTERNAL_REST, "false").strip().lower() != "true":
        return None
    return internal_rest.derived(resolved, _source(settings, environment))


def _source(
    settings: app_settings.Settings, environment: Mapping[str, str]
) -> worker_reader.Source:
    return worker_reader.Source(
        file=settings.file, folder=pathlib.Path.cwd(), environment=environment
    )
