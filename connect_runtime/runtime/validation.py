"""Which plugins there are, which keys they know, and what is wrong with a configuration.

Everything is worked out on the caller's thread and may take as long as a plugin does. Java:
AbstractHerder, its validateConnectorConfig, connectorPluginConfig and connectorType.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from connect_runtime.api import config_def, config_infos, connector, errors, task
from connect_runtime.core.state import cluster_config
from connect_runtime.core.task import (
    connector_checks,
    connector_keys,
    plugin_keys,
    plugin_versions,
    shown_infos,
    worker_config,
)
from connect_runtime.ports import herder
from connect_runtime.ports import plugins as plugins_port
from connect_runtime.runtime import (
    converter_validation,
    installed_plugins,
    plugin_answers,
    plugin_facts,
)

CLASS = "connector.class"
_BOUNDARY = "transaction.boundary"
_BAD_REQUEST = 400

_Result = TypeVar("_Result")
Resolve = Callable[[cluster_config.RawConfig], Mapping[str, str | None]]
"""Fills `${…}` in; raises `ConnectError`."""


class Validation:
    """Of one worker; any thread may ask, and several at once."""

    def __init__(
        self,
        *,
        installed: plugins_port.Plugins,
        worker: worker_config.WorkerConfig,
        resolve: Resolve,
    ) -> None:
        self._installed = installed
        self._plugins = installed_plugins.InstalledPlugins(installed, worker=worker)
        self._worker = worker
        self._resolve = resolve

    def plugins(self) -> tuple[herder.PluginInfo, ...]:
        """See `ports.herder.Herder`; so for all below. At the first call plugins are made."""
        return tuple(
            herder.PluginInfo(
                class_name=each.class_name,
                type=herder.PluginType(each.kind.value),
                version=each.version,
            )
            for each in self._installed.installed()
        )

    def connector_type(self, config: cluster_config.RawConfig | None) -> herder.ConnectorType:
        name = None if config is None else config.get(CLASS)
        if name is None:
            return herder.ConnectorType.UNKNOWN
        try:
            of = self._plugins.find(name, *plugin_facts.CONNECTORS)
        except errors.ConfigError:
            return herder.ConnectorType.UNKNOWN
        sink = issubclass(of, connector.SinkConnector)
        return herder.ConnectorType.SINK if sink else herder.ConnectorType.SOURCE

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> tuple[config_infos.ConfigKeyInfo, ...]:
        """Its own keys first, then those that all connectors have."""
        try:
            of = self._plugins.find(plugin)
        except errors.ConfigError:
            raise errors.NotFoundError(f"Unknown plugin {plugin}.") from None
        return _refusing(lambda: self._keys_of(of, version))

    def _keys_of(
        self, of: type[Any], version: str | None
    ) -> tuple[config_infos.ConfigKeyInfo, ...]:
        name = self._plugins.name(of)
        instance = plugin_answers.made(of, name)
        plugin_answers.check_version(instance, name, version)
        definition = plugin_answers.definition(instance)
        keys = dict(definition.keys)
        if isinstance(instance, connector.Connector):
            base = plugin_keys.enriched(
                _base(instance),
                connector_version=next(iter(plugin_answers.versions(instance)), None),
                choices=self._plugins.choices(),
            )
            keys = {**keys, **{name: key for name, key in base.keys.items() if name not in keys}}
        infos = plugin_answers.asked(
            instance, "config", lambda: [config_infos.key_info(key) for key in keys.values()]
        )
        return shown_infos.keys(infos, self._plugins.names())

    def validate(self, config: cluster_config.RawConfig) -> config_infos.ConfigInfos:
        """`Refusal` 400 as well for a connector that has no definition, or a version unheard of."""
        return _refusing(lambda: self._validated(config))

    def _validated(self, config: cluster_config.RawConfig) -> config_infos.ConfigInfos:
        resolved = dict(self._resolve(config))
        name = resolved.get(CLASS)
        if name is None:
            raise errors.ConfigError(
                f"Connector config {{{', '.join(config)}}} contains no connector type"
            )
        made = plugin_answers.made(
            self._plugins.find(name, *plugin_facts.CONNECTORS), f"connector {name}"
        )
        one = _One(made, resolved, plugins=self._plugins, worker=self._worker)
        return shown_infos.shown(
            one.validated(name), given=config, resolved=resolved, names=self._plugins.names()
        )


class _One:
    """The validation of one configuration."""

    def __init__(
        self,
        made: connector.Connector,
        config: connector_checks.Config,
        *,
        plugins: installed_plugins.InstalledPlugins,
        worker: worker_config.WorkerConfig,
    ) -> None:
        self._made = made
        self._config = config
        self._plugins = plugins
        self._worker = worker
        self._sink = isinstance(made, connector.SinkConnector)
        self._versions = plugin_answers.versions(made)

    def validated(self, name: str) -> config_infos.ConfigInfos:
        refused = plugin_versions.refusal(
            self._plugins.name(type(self._made)),
            self._config.get(plugin_keys.CONNECTOR_VERSION),
            self._versions,
        )
        if refused is not None:
            return self._of_another_version(name, refused)
        default = plugin_facts.default_converter(self._made)
        choices = self._plugins.choices(self._config, default=default)
        definition = self._enriched(_base(self._made), choices)
        values = definition.validate_all(self._config, load=self._plugins.load)
        self._check(values)
        converters = converter_validation.validate(self._config, values, plugins=self._plugins)
        overrides = connector_checks.overrides(self._worker, self._config, sink=self._sink)
        own = self._own(name, definition, values)
        return config_infos.merge(
            name,
            [*own.configs, *overrides, *converters.configs],
            groups=[*own.groups, *converters.groups],
        )

    def _of_another_version(self, name: str, refused: str) -> config_infos.ConfigInfos:
        """What all connectors have in common is looked at, no more."""
        definition = self._enriched(connector_keys.CONNECTOR, self._plugins.choices())
        values = definition.validate_all(self._config, load=self._plugins.load)
        for key in (CLASS, plugin_keys.CONNECTOR_VERSION):
            connector_checks.add(values, key, refused)
        connector_checks.nulls(values, self._config)
        return config_infos.collect(
            name, definition.keys, values=list(values.values()), groups=definition.groups
        )

    def _enriched(
        self, base: config_def.ConfigDef, choices: Mapping[str, plugin_keys.Choice]
    ) -> config_def.ConfigDef:
        version = next(iter(self._versions), None)
        return plugin_keys.enriched(base, connector_version=version, choices=choices)

    def _check(self, values: connector_checks.Values) -> None:
        """What no key shows alone."""
        worker, config = self._worker, self._config
        if self._sink:
            connector_checks.topics(values, config)
        if isinstance(worker, worker_config.DistributedConfig):
            if self._sink:
                connector_checks.consumer_group(values, config, workers=worker.group_id)
            else:
                self._check_boundary(values)
        connector_checks.not_offered(values, config, carried_out=self._made.carries_out)
        connector_checks.token_endpoints(values, config, worker)
        connector_checks.nulls(values, config)

    def _check_boundary(self, values: connector_checks.Values) -> None:
        found = values[_BOUNDARY]
        by_connector = task.TransactionBoundary.CONNECTOR.value
        if found.error_messages or str(found.value).lower() != by_connector.lower():
            return
        made = self._made
        assert isinstance(made, connector.SourceConnector), made
        try:
            can = plugin_answers.asked(
                made,
                "can_define_transaction_boundaries",
                lambda: made.can_define_transaction_boundaries(self._props()),
            )
        except errors.ConnectError as error:
            message = f"An unexpected error occurred during validation: {error}"
            connector_checks.add(values, _BOUNDARY, message)
            return
        if can is not connector.TransactionBoundaries.SUPPORTED:
            connector_checks.add(
                values,
                _BOUNDARY,
                "The connector does not support connector-defined transaction boundaries with the"
                " given configuration. Please reconfigure it to use a different transaction"
                " boundary definition.",
            )

    def _own(
        self, name: str, definition: config_def.ConfigDef, values: connector_checks.Values
    ) -> config_infos.ConfigInfos:
        """With what the connector itself says."""
        own = plugin_answers.definition(self._made)
        found = plugin_answers.values(self._made, self._props())
        collect = functools.partial(
            config_infos.collect,
            name,
            {**definition.keys, **own.keys},
            values=[*values.values(), *found],
            groups=[*definition.groups, *own.groups],
        )
        return plugin_answers.asked(self._made, "validate", collect)

    def _props(self) -> dict[str, str]:
        """For the plugin, to whom a null is as good as nothing."""
        return {name: value for name, value in self._config.items() if value is not None}


def _base(of: connector.Connector) -> config_def.ConfigDef:
    sink = isinstance(of, connector.SinkConnector)
    return connector_keys.SINK if sink else connector_keys.SOURCE


def _refusing(work: Callable[[], _Result]) -> _Result:
    """Raises `Refusal` for what is the asker's fault."""
    try:
        return work()
    except errors.ConfigError as error:
        raise herder.Refusal(_BAD_REQUEST, str(error)) from error
