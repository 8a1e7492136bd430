"""Plans the validated Connect worker and connector configurations of each flow.

Configurations are derived from the file's flat properties and validated in the same way as when a
worker starts. Problems are reported where they originate: in sections `worker` and `rest` of
`clusters.yaml`, or at the keys of `mm2.properties`.
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
from connect_runtime.app import distributed_settings, internal_rest_settings
from connect_runtime.app.distributed_settings import DistributedSettings
from connect_runtime.app.internal_rest_settings import InternalRestSettings
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.base.host_and_origin_rules import AllowedHosts
from connect_runtime.config import config_providers, worker_config_keys
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.plugins import plugin_discovery
from connect_runtime.plugins.plugin_aliases import PluginRegistry
from connect_runtime.rest import host_and_origin_middleware
from mm2 import suggested_commands
from mm2.config import (
    config_value_types,
    dedicated_mode,
    mirror_connector_config_keys,
    mm2_only_keys,
    mm2_property_keys,
)
from mm2.config.dedicated_mode import SourceAndTarget
from mm2.config.mm2_settings import FlatProperties, Mm2Settings
from mm2.replication import record_transforms
from mm2.suggested_commands import OperatorCommands
from mm2.topics.flow_config import Flow

_CLIENT_PREFIXES = ("consumer.", "producer.", "admin.")
DEFAULT_RESTART_MAX = 10
"""Default for the number of consecutive restarts of a failed connector or task."""


def derive_worker_props(flat: FlatProperties, ends: SourceAndTarget) -> dict[str, str]:
    """Derive the resolved properties of the flow's worker, without keys that have no effect.

    The loader warns about the omitted keys. Raises `ConfigError` if a placeholder cannot be
    resolved.
    """
    found = dedicated_mode.derive_worker_config(flat.props, ends, resolve=flat.resolve)
    for key in (*mm2_property_keys.NON_WORKER_KEYS, mm2_property_keys.RESTART_MAX):
        found.pop(key, None)
    found.setdefault(mm2_property_keys.OVERRIDE_POLICY, mm2_property_keys.ALL_OVERRIDES)
    issuers = _list_token_endpoints(flat)
    if issuers:
        found[worker_config_keys.OAUTH_URLS_KEY] = ",".join(issuers)
    return {key: value for key, value in found.items() if not _is_ineffective_key(key, found)}


def _list_token_endpoints(flat: FlatProperties) -> list[str]:
    """Return all OAuth token endpoints of the file's clusters and flows."""
    resolved = flat.resolve(flat.props)
    return sorted(
        {
            value
            for key, value in resolved.items()
            if key.endswith(mm2_property_keys.TOKEN_ENDPOINT_URL)
        }
        - {""}
    )


def _is_ineffective_key(key: str, found: Mapping[str, str]) -> bool:
    """Return True if setting the key has no effect: the value is the one that is fixed in mm2, or
    the key configures TLS or SASL for a plaintext connection."""
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
    """Parse the maximum number of consecutive restarts; -1 means unlimited.

    Raises `ConfigError` if a placeholder cannot be resolved, or `ValueError` if the value is not a
    number.
    """
    found = dedicated_mode.derive_worker_config(flat.props, ends, resolve=flat.resolve)
    given = found.get(mm2_property_keys.RESTART_MAX, str(DEFAULT_RESTART_MAX)).strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", given):
        raise ValueError(given)
    return int(given)


def derive_rest_settings(
    flat: FlatProperties, source: WorkerSettingsSource
) -> InternalRestSettings | None:
    """Derive the settings of the REST server for communication between nodes. Returns None if the
    server is disabled. Raises `SettingsError` if the settings are invalid."""
    resolved = flat.resolve(flat.props)
    if resolved.get(dedicated_mode.INTERNAL_REST_KEY, "false").strip().lower() != "true":
        return None
    return internal_rest_settings.read_internal_rest_settings(resolved, source)


def derive_allowed_hosts(flat: FlatProperties, source: WorkerSettingsSource) -> AllowedHosts:
    """Derive the host names that are accepted in the `Host` header of HTTP requests. The REST
    server settings that determine these names apply even if the REST server between nodes is
    disabled.

    Raises `SettingsError` if the settings are invalid.
    """
    return host_and_origin_middleware.collect_allowed_hosts(
        internal_rest_settings.read_internal_rest_settings(
            flat.resolve(flat.props), source
        ).settings
    )


def create_worker_settings_source(
    file: str, *, environment: Mapping[str, str], folder: pathlib.Path | None = None
) -> WorkerSettingsSource:
    """Create the `WorkerSettingsSource` that loads the settings of Connect workers. Relative paths
    in settings are resolved against the directory `folder`; if it is None, against the working
    directory, as in Java."""
    return WorkerSettingsSource(
        file=file,
        folder=folder or pathlib.Path.cwd(),
        environment=environment,
        discover=_discover_plugins,
    )


def validate_workers(
    flat: FlatProperties, settings_source: WorkerSettingsSource
) -> list[ConfigProblem]:
    """Return the problems in the worker settings of all flows, without duplicates. Returns no
    problems if placeholders cannot be resolved."""
    try:
        flows = dedicated_mode.list_flows(flat.resolve(flat.props))
    except ConfigError:
        return []
    found = list(
        _collect_worker_problems(flat, lambda: derive_rest_settings(flat, settings_source), ("",))
    )
    for ends in flows:
        where = (f"{ends.target}.", "")
        made = functools.partial(
            distributed_settings.parse_fleet_worker_settings,
            derive_worker_props(flat, ends),
            settings_source,
        )
        found += _collect_worker_problems(flat, made, where)
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
                        allowed="a whole number, or -1 for no limit",
                    ),
                    where,
                )
            )
    return list(dict.fromkeys(found))


def _collect_worker_problems(
    flat: FlatProperties, made: Callable[[], object], where: Sequence[str]
) -> Iterator[ConfigProblem]:
    try:
        made()
    except SettingsError as error:
        yield from (_locate_problem(flat, each, where) for each in error.problems)


def _locate_problem(
    flat: FlatProperties, problem: ConfigProblem, where: Sequence[str]
) -> ConfigProblem:
    """Return the problem with its location in the file. `where` lists the key prefixes to search
    for, the most specific first."""
    named = (prefix + problem.key for prefix in where)
    found = next((each for each in named if each in flat.locations), None)
    if found is None:
        return problem
    line, key = flat.locations[found]
    if config_providers.find_provider_names(flat.props.get(found, "")):
        return ConfigProblem(line=line, key=key, text="is not allowed")
    return dataclasses.replace(problem, line=line, key=key)


@functools.lru_cache(maxsize=8)
def _discover_plugins_cached(
    folders: tuple[str, ...], file_paths: tuple[str, ...]
) -> PluginRegistry:
    return plugin_discovery.discover_plugins(folders, file_paths)


def _discover_plugins(folders: Sequence[str], file_paths: Sequence[str]) -> PluginRegistry:
    """Discover plugins once per process for all workers with the same plugin directories."""
    return _discover_plugins_cached(tuple(folders), tuple(file_paths))


SOURCE_CONNECTOR, HEARTBEAT_CONNECTOR, CHECKPOINT_CONNECTOR = dedicated_mode.CONNECTORS
"""Names of the connectors that every flow has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    """Plan for running one flow in a process: its worker, its connectors and their
    configuration."""

    ends: SourceAndTarget
    worker: DistributedSettings = field(repr=False)
    worker_props: Mapping[str, str] = field(repr=False)
    """Worker properties from which `worker` was parsed."""
    connectors: Mapping[str, Mapping[str, str]] = field(repr=False)
    """Connector configurations by name, with placeholders `${…}` unresolved."""
    source_config: Mapping[str, str] = field(repr=False)
    """Configuration of the source connector, with placeholders resolved."""
    replicates_topics: bool
    """True if the flow replicates topics. Otherwise it only emits heartbeats."""
    restart_max: int
    """Maximum number of consecutive restarts of a failed connector or task; -1: unlimited."""
    file: str = suggested_commands.DEFAULT_CONFIG_FILE
    """Absolute path of the configuration file."""

    @property
    def name(self) -> str:
        return str(self.ends)

    @property
    def resume_command(self) -> str:
        """Command that resumes the flow after a pause or stop."""
        return OperatorCommands(file=self.file).build_resume_command(self.name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSelection:
    """Command-line options that select the flows which a process runs, with options that apply to
    the selected flows."""

    target_aliases: tuple[str, ...] = ()
    """Aliases of the target clusters whose flows are selected; empty: all targets."""
    names: tuple[str, ...] = ()
    """Names of the selected flows; empty: all flows."""
    throttle: int = 0
    """Rate limit per flow in bytes per second; 0: no limit."""
    java_stopped: bool = False
    """True if the user states that Java MirrorMaker 2 has stopped, so that mm2 does not wait for
    its in-flight writes."""


ALL_FLOWS = FlowSelection()


def plan_flows(
    settings: Mm2Settings, selection: FlowSelection, *, environment: Mapping[str, str]
) -> list[FlowPlan]:
    """Build the worker settings and connector configurations of all selected flows.

    Raises `SettingsError` if worker settings are invalid, or `ConfigError` if a placeholder cannot
    be resolved.
    """
    flat = settings.flat
    resolved = flat.resolve(flat.props)
    mirroring = {flow.name for flow in settings.flows}
    return [
        _plan_flow(settings, ends, selection, mirroring=mirroring, environment=environment)
        for ends in dedicated_mode.list_flows(resolved, target_aliases=selection.target_aliases)
        if not selection.names or str(ends) in selection.names
    ]


def plan_flow(settings: Mm2Settings, flow: Flow, *, environment: Mapping[str, str]) -> FlowPlan:
    """Build the worker settings and connector configurations of one flow. Raises the same errors as
    `plan_flows`."""
    (found,) = plan_flows(settings, FlowSelection(names=(flow.name,)), environment=environment)
    return found


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
        for name, config in dedicated_mode.derive_connector_configs(flat.props, ends).items()
    }
    if choice.throttle:
        source = connectors[SOURCE_CONNECTOR]
        given = flat.resolve(source).get(mm2_only_keys.THROTTLE.name)
        least = min(
            choice.throttle, config_value_types.parse_byte_rate(given) if given else choice.throttle
        )
        source[mm2_only_keys.THROTTLE.name] = str(least)
    # Only the command line can set this: in a file it would stay true after Java has run again.
    connectors[SOURCE_CONNECTOR].pop(mirror_connector_config_keys.JAVA_STOPPED_CLEANLY, None)
    if choice.java_stopped:
        connectors[SOURCE_CONNECTOR][mirror_connector_config_keys.JAVA_STOPPED_CLEANLY] = "true"
    props = derive_worker_props(flat, ends)
    worker = distributed_settings.parse_fleet_worker_settings(
        props, create_worker_settings_source(settings.file, environment=environment)
    )
    access = dataclasses.replace(worker.access, name=ends.target)
    return FlowPlan(
        ends=ends,
        restart_max=parse_restart_max(flat, ends),
        worker=dataclasses.replace(worker, access=access),
        worker_props=props,
        connectors=connectors,
        source_config=flat.resolve(connectors[SOURCE_CONNECTOR]),
        replicates_topics=str(ends) in mirroring,
        file=os.path.abspath(settings.file),
    )


def _is_connector_key(connector: str, key: str) -> bool:
    """Return True if the connector receives this key. Only the source connector receives
    transformations, because heartbeats and checkpoints have fixed formats."""
    about = key in record_transforms.LIST_KEYS or key.startswith(record_transforms.KEY_PREFIXES)
    return key not in mm2_property_keys.RECORD_ERROR_KEYS and (
        connector == SOURCE_CONNECTOR or not about
    )


def derive_status_page_hosts(
    settings: Mm2Settings, *, environment: Mapping[str, str]
) -> AllowedHosts:
    """Return the host names that the status page accepts in the `Host` header of requests, as set
    in the configuration. Raises `SettingsError` if the settings are invalid."""
    return derive_allowed_hosts(
        settings.flat, create_worker_settings_source(settings.file, environment=environment)
    )


def plan_rest_server(
    settings: Mm2Settings, *, environment: Mapping[str, str]
) -> InternalRestSettings | None:
    """Return the settings of the REST server for communication between nodes; None if the server is
    disabled. Raises `SettingsError` if the settings are invalid."""
    return derive_rest_settings(
        settings.flat, create_worker_settings_source(settings.file, environment=environment)
    )
