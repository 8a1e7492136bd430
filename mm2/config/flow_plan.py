"""What one flow runs with: its Connect worker and its three connectors, validated.

Both are derived from the file's flat properties and checked as on any worker that starts.
Problems are reported at the line they come from: in `clusters.yaml` in the sections `worker`
and `rest`, in `mm2.properties` at Java's keys.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConfigError
from connect_runtime.app import distributed_settings, internal_rest
from connect_runtime.app.distributed_settings import DistributedSettings
from connect_runtime.app.internal_rest import InternalRestSettings
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.base.request_origin import AllowedHosts
from connect_runtime.config import config_providers, worker_keys
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.plugins import plugin_discovery
from connect_runtime.plugins.plugin_aliases import PluginRegistry
from connect_runtime.rest import host_check
from mm2 import operator_commands
from mm2.config import dedicated_mode, keys, mm2_property_keys, value_types
from mm2.config.dedicated_mode import SourceAndTarget
from mm2.config.mm2_settings import FlatProperties, Mm2Settings
from mm2.operator_commands import OperatorCommands
from mm2.replication import record_transforms

_CLIENT_PREFIXES = ("consumer.", "producer.", "admin.")
DEFAULT_RESTART_MAX = 10
"""How often in a row something that fails is started again, unless the file says otherwise."""


def derive_worker_props(flat: FlatProperties, ends: SourceAndTarget) -> dict[str, str]:
    """Of the flow's worker, `${…}` filled in, without what acts on nothing here and is told where
    the file is read. Raises `ConfigError`."""
    found = dedicated_mode.derive_worker(flat.props, ends, resolve=flat.resolve)
    for key in (*mm2_property_keys.NON_WORKER_KEYS, mm2_property_keys.RESTART_MAX):
        found.pop(key, None)
    found.setdefault(mm2_property_keys.OVERRIDE_POLICY, mm2_property_keys.ALL_OVERRIDES)
    issuers = _list_token_endpoints(flat)
    if issuers:
        found[worker_keys.OAUTH_URLS_KEY] = ",".join(issuers)
    return {key: value for key, value in found.items() if not _has_no_effect(key, found)}


def _list_token_endpoints(flat: FlatProperties) -> list[str]:
    """All that the file names for its clusters and flows."""
    resolved = flat.resolve(flat.props)
    return sorted(
        {
            value
            for key, value in resolved.items()
            if key.endswith(mm2_property_keys.TOKEN_ENDPOINT_URL)
        }
        - {""}
    )


def _has_no_effect(key: str, found: Mapping[str, str]) -> bool:
    """Does it ask for what is so anyway, or is it of a security that connections do not have?"""
    role = next((each for each in _CLIENT_PREFIXES if key.startswith(each)), "")
    name = key.removeprefix(role)
    if mm2_property_keys.is_fixed_value(name, found[key]):
        return True
    if not name.startswith(("ssl.", "sasl.")):
        return False
    plain = not (
        found.get(role + mm2_property_keys.SECURITY_PROTOCOL)
        or found.get(mm2_property_keys.SECURITY_PROTOCOL)
    )
    return plain or name not in mm2_property_keys.CLIENT_KEYS


def parse_restart_max(flat: FlatProperties, ends: SourceAndTarget) -> int:
    """As in `restarts.Restarts`. Raises `ConfigError`, and `ValueError` for what is no number."""
    found = dedicated_mode.derive_worker(flat.props, ends, resolve=flat.resolve)
    given = found.get(mm2_property_keys.RESTART_MAX, str(DEFAULT_RESTART_MAX)).strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", given):
        raise ValueError(given)
    return int(given)


def derive_rest(flat: FlatProperties, source: WorkerSettingsSource) -> InternalRestSettings | None:
    """How the nodes of a group reach each other; None: they do not. Raises `SettingsError`."""
    resolved = flat.resolve(flat.props)
    if resolved.get(dedicated_mode.INTERNAL_REST_KEY, "false").strip().lower() != "true":
        return None
    return internal_rest.read_internal_rest(resolved, source)


def derive_allowed_hosts(flat: FlatProperties, source: WorkerSettingsSource) -> AllowedHosts:
    """Under which host names this process may be asked, also where nodes do not reach each other.
    Raises `SettingsError`."""
    return host_check.collect_allowed_hosts(
        internal_rest.read_internal_rest(flat.resolve(flat.props), source).settings
    )


def make_worker_source(
    file: str, *, environment: Mapping[str, str], folder: pathlib.Path | None = None
) -> WorkerSettingsSource:
    """Relative paths start at `folder`; None: where this process was started, as in Java."""
    return WorkerSettingsSource(
        file=file,
        folder=folder or pathlib.Path.cwd(),
        environment=environment,
        discover=_discover_plugins,
    )


def validate_workers(flat: FlatProperties, about: WorkerSettingsSource) -> list[ConfigProblem]:
    """Of all flows that have a worker, each once; none where placeholders cannot be filled in."""
    try:
        flows = dedicated_mode.list_flows(flat.resolve(flat.props))
    except ConfigError:
        return []
    found = list(_collect_problems(flat, lambda: derive_rest(flat, about), ("",)))
    for ends in flows:
        where = (f"{ends.target}.", "")
        made = functools.partial(
            distributed_settings.parse_derived_settings, derive_worker_props(flat, ends), about
        )
        found += _collect_problems(flat, made, where)
        try:
            parse_restart_max(flat, ends)
        except ValueError:
            found.append(
                _locate_problem(
                    flat,
                    ConfigProblem(
                        line=0,
                        key=mm2_property_keys.RESTART_MAX,
                        text="is not allowed",
                        allowed="a whole number, or -1: always",
                    ),
                    where,
                )
            )
    return list(dict.fromkeys(found))


def _collect_problems(
    flat: FlatProperties, made: Callable[[], object], where: Sequence[str]
) -> Iterator[ConfigProblem]:
    try:
        made()
    except SettingsError as error:
        yield from (_locate_problem(flat, each, where) for each in error.problems)


def _locate_problem(
    flat: FlatProperties, problem: ConfigProblem, where: Sequence[str]
) -> ConfigProblem:
    """`where` are beginnings of keys, the most specific first."""
    named = (prefix + problem.key for prefix in where)
    found = next((each for each in named if each in flat.places), None)
    if found is None:
        return problem
    line, key = flat.places[found]
    if config_providers.find_provider_names(flat.props.get(found, "")):
        return ConfigProblem(line=line, key=key, text="is not allowed")
    return dataclasses.replace(problem, line=line, key=key)


@functools.lru_cache(maxsize=8)
def _discover_cached(folders: tuple[str, ...], file_paths: tuple[str, ...]) -> PluginRegistry:
    return plugin_discovery.discover_plugins(folders, file_paths)


def _discover_plugins(folders: Sequence[str], file_paths: Sequence[str]) -> PluginRegistry:
    """Once for all workers of this process that name the same folders."""
    return _discover_cached(tuple(folders), tuple(file_paths))


SOURCE_CONNECTOR, HEARTBEAT_CONNECTOR, CHECKPOINT_CONNECTOR = dedicated_mode.CONNECTORS
"""The names of a flow's connectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    """`worker_props` are what `worker` was read from; `connectors` have `${…}` as it stands.

    `file` is the absolute path of the file that configures it.
    `source` is the mirror's configuration with it filled in. `shown`: it mirrors, else it is there
    for its heartbeats alone. `restart_max` as in `restarts.Restarts`.
    """

    ends: SourceAndTarget
    worker: DistributedSettings = field(repr=False)
    worker_props: Mapping[str, str] = field(repr=False)
    connectors: Mapping[str, Mapping[str, str]] = field(repr=False)
    source: Mapping[str, str] = field(repr=False)
    shown: bool
    restart_max: int
    file: str = operator_commands.DEFAULT_CONFIG_FILE

    @property
    def name(self) -> str:
        return str(self.ends)

    @property
    def resume(self) -> str:
        """The command that resumes it after a pause or stop."""
        return OperatorCommands(file=self.file).go_on(self.name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSelection:
    """Which flows of a file this process runs, and how fast at most.

    `near`: only flows to these clusters; `names`: only these; empty: all. `throttle` 0: no limit.
    `java_stopped`: nothing that Java's MirrorMaker may still send is waited for.
    """

    near: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    throttle: int = 0
    java_stopped: bool = False


ALL_FLOWS = FlowSelection()


def plan_flows(
    settings: Mm2Settings, choice: FlowSelection, *, environment: Mapping[str, str]
) -> list[FlowPlan]:
    """Raises `SettingsError` where a worker's settings are wrong, and `ConfigError`."""
    flat = settings.flat
    resolved = flat.resolve(flat.props)
    mirroring = {flow.name for flow in settings.flows}
    return [
        _plan_flow(settings, ends, choice, mirroring=mirroring, environment=environment)
        for ends in dedicated_mode.list_flows(resolved, near=choice.near)
        if not choice.names or str(ends) in choice.names
    ]


def _plan_flow(
    settings: Mm2Settings,
    ends: SourceAndTarget,
    choice: FlowSelection,
    *,
    mirroring: Collection[str],
    environment: Mapping[str, str],
) -> FlowPlan:
    flat = settings.flat
    connectors = {
        name: {key: value for key, value in config.items() if _is_connector_key(name, key)}
        for name, config in dedicated_mode.derive_connectors(flat.props, ends).items()
    }
    if choice.throttle:
        source = connectors[SOURCE_CONNECTOR]
        given = flat.resolve(source).get(keys.THROTTLE)
        least = min(
            choice.throttle, value_types.parse_byte_rate(given) if given else choice.throttle
        )
        source[keys.THROTTLE] = str(least)
    connectors[SOURCE_CONNECTOR].pop(keys.JAVA_STOPPED_CLEANLY, None)  # a file says it for good
    if choice.java_stopped:
        connectors[SOURCE_CONNECTOR][keys.JAVA_STOPPED_CLEANLY] = "true"
    props = derive_worker_props(flat, ends)
    worker = distributed_settings.parse_derived_settings(
        props, make_worker_source(settings.file, environment=environment)
    )
    access = dataclasses.replace(worker.access, name=ends.target)
    return FlowPlan(
        ends=ends,
        restart_max=parse_restart_max(flat, ends),
        worker=dataclasses.replace(worker, access=access),
        worker_props=props,
        connectors=connectors,
        source=flat.resolve(connectors[SOURCE_CONNECTOR]),
        shown=str(ends) in mirroring,
        file=os.path.abspath(settings.file),
    )


def _is_connector_key(connector: str, key: str) -> bool:
    """Of heartbeats and checkpoints no record is transformed: who reads them knows their form."""
    about = key in record_transforms.LIST_KEYS or key.startswith(record_transforms.KEY_PREFIXES)
    return key not in mm2_property_keys.RECORD_ERROR_KEYS and (
        connector == SOURCE_CONNECTOR or not about
    )


def resolve_page_hosts(settings: Mm2Settings, *, environment: Mapping[str, str]) -> AllowedHosts:
    """Under which host names the status page may be asked. Raises `SettingsError`."""
    return derive_allowed_hosts(
        settings.flat, make_worker_source(settings.file, environment=environment)
    )


def plan_rest(
    settings: Mm2Settings, *, environment: Mapping[str, str]
) -> InternalRestSettings | None:
    """How the nodes of a group reach each other; None: they do not. Raises `SettingsError`."""
    return derive_rest(settings.flat, make_worker_source(settings.file, environment=environment))
