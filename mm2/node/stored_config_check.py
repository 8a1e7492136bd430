"""Checks stored connector and task configurations against this node's plan before they are used.

The config topic is on the target cluster, so brokers of the target and writers of the topic can
change stored configurations. A changed configuration must not make this node read its files or
environment variables, or send its credentials to other addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import config_placeholders
from connect_runtime.storage.cluster_config_state import RawConfig
from mm2.config import mirror_connector_keys
from mm2.config.flow_plan import FlowPlan
from mm2.topics import task_assignment

_CONNECTION_PREFIXES = ("source.", "target.", "producer.", "consumer.", "admin.")
_MAX_LISTED_KEYS = 10
_MAX_SHOWN_LENGTH = 200
_REMEDY = (
    "If the node that leads the group has a newer file, give this node the same file and run "
    "'mm2 reload'. If this node leads, it writes the configuration of its file again. If all nodes "
    "have the same file, another client has changed the config topic on the target: allow only mm2 "
    "to write to mm2-configs.*"
)


def find_connection_differences(planned: Mapping[str, str], stored: RawConfig) -> list[str]:
    """Return the keys of connection settings, including the connector class, whose stored values
    differ from the planned ones."""
    keys = {key for key in (*planned, *stored) if _is_connection_key(key)}
    return sorted(key for key in keys if planned.get(key) != stored.get(key))


def _is_connection_key(key: str) -> bool:
    return key == mirror_connector_keys.CONNECTOR_CLASS or key.startswith(_CONNECTION_PREFIXES)


class StoredConfigResolver:
    """Resolves the `${…}` references of stored connector and task configurations that agree with
    this node's plan. Thread-safe."""

    def __init__(self, plan: FlowPlan) -> None:
        self.plan = plan
        """The current plan. Assign a new plan when the configuration file is reloaded."""

    def __call__(self, config: RawConfig) -> Mapping[str, str | None]:
        """Resolve the references of a configuration.

        Group names in a task's configuration are not resolved, because clients of the source choose
        them. Raises `ConfigError` if the configuration is not of one of the flow's connectors, if
        its connection settings differ from the plan, or if it contains other references.
        """
        plan = self.plan
        name = config.get(mirror_connector_keys.NAME) or ""
        planned = plan.connectors.get(name)
        if planned is None:
            raise ConfigError(
                f"connector {_shorten(name)!r} is not run: it is not a connector of the flow "
                f"{plan.name}. Allowed are {', '.join(plan.connectors)}. Delete it, and run other "
                "connectors in a Connect worker (connect-distributed)"
            )
        differing = find_connection_differences(planned, config)
        if differing:
            raise ConfigError(
                f"the stored configuration of {name} is not used, because its connection settings "
                f"differ from {plan.file}: {_list_keys(differing)}. {_REMEDY}"
            )
        groups = {key: value for key, value in config.items() if key == task_assignment.GROUPS_KEY}
        others = {key: value for key, value in config.items() if key not in groups}
        unplanned = sorted(
            key
            for key, value in others.items()
            if value is not None
            and not _find_references(value) <= _find_references(planned.get(key, ""))
        )
        if unplanned:
            raise ConfigError(
                f"the stored configuration of {name} is not used, because it contains references "
                f"(${{provider:path:key}}) that {plan.file} does not contain: "
                f"{_list_keys(unplanned)}. {_REMEDY}"
            )
        return {**plan.worker.resolve_connector_config(others), **groups}


def _find_references(text: str) -> set[str]:
    return {text[each.start : each.end] for each in config_placeholders.find_placeholders(text)}


def _list_keys(keys: Sequence[str]) -> str:
    """Format the first keys as a list, each shortened: an attacker may have chosen them."""
    listed = ", ".join(_shorten(each) for each in keys[:_MAX_LISTED_KEYS])
    more = len(keys) - _MAX_LISTED_KEYS
    return f"{listed} and {more:,} more" if more > 0 else listed


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…"
