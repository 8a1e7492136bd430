"""Resolves stored connector and task configurations with the connection settings of this node.

The config topic is on the target cluster, so brokers of the target and writers of the topic can
change stored configurations. A changed configuration must not make this node read its files or
environment variables, load other classes, or send its credentials to other addresses.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import config_placeholders
from connect_runtime.storage.cluster_config_state import RawConfig
from mm2.config import mirror_connector_config_keys
from mm2.config.flow_connector_configs import FlowPlan
from mm2.replication import record_transforms
from mm2.topics import task_assignment

_CONNECTION_PREFIXES = ("source.", "target.", "producer.", "consumer.", "admin.")
_CLASS_SUFFIX = ".class"
_LITERAL_KEYS = (task_assignment.GROUPS_KEY, "task.class")
"""Keys that occur only in stored task configurations, not in configuration files. Placeholders in
their values are not replaced. No class is loaded from `task.class`."""
_MAX_SHOWN_LENGTH = 200


class StoredConfigResolver:
    """Resolves stored connector and task configurations with the settings in this node's file.
    Thread-safe.

    Connection settings, classes, transforms, predicates and values with placeholders
    (`${provider:path:key}`) are taken from this node's plan, all other values from the stored
    configuration. If the nodes' files differ, for example during a rolling update, each node
    connects with the settings in its own file.
    """

    def __init__(self, plan: FlowPlan) -> None:
        self.plan = plan
        """The current plan. Assign a new plan when the configuration file is reloaded."""

    def __call__(self, config: RawConfig) -> Mapping[str, str | None]:
        """Resolve a connector or task configuration.

        Placeholders in the group names of a task's configuration are not replaced, because clients
        of the source choose the names. Raises `ConfigError` if the configuration does not belong to
        one of the flow's connectors.
        """
        plan = self.plan
        name = config.get(mirror_connector_config_keys.NAME) or ""
        planned = plan.connectors.get(name)
        if planned is None:
            raise ConfigError(
                f"connector {name[:_MAX_SHOWN_LENGTH]!r} is not started: the flow {plan.name} runs "
                f"only {', '.join(plan.connectors)}. Delete the connector, and run it in a Connect "
                "worker (connect-distributed)"
            )
        stored = {
            key: value
            for key, value in config.items()
            if key in _LITERAL_KEYS or not (_is_protected(key) or _has_reference(value))
        }
        own = {
            key: value
            for key, value in planned.items()
            if key not in stored and (key in config or _is_protected(key))
        }
        return {**stored, **plan.worker.resolve_connector_config(own)}


def _is_protected(key: str) -> bool:
    """Return True for the keys of connection settings, classes, transforms and predicates, which
    are never taken from the stored configuration."""
    return (
        key in record_transforms.LIST_KEYS
        or key.startswith((*_CONNECTION_PREFIXES, *record_transforms.KEY_PREFIXES))
        or key.endswith(_CLASS_SUFFIX)
    )


def _has_reference(value: str | None) -> bool:
    return any(config_placeholders.find_placeholders(value or ""))
