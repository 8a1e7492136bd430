"""What is wrong with a connector's configuration beyond single keys, and what is so only here.

Texts and conditions of the first kind are Java's, which looks at the values as they are written:
"FALSE" switches a connector's work off, and goes unnoticed here as there.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.api import config_def, config_types, connector
from mm2.core.configs import connector_keys as keys
from mm2.core.configs import java_classes, roles

READ_COMMITTED = "read_committed"
Errors = dict[str, list[str]]
"""Messages by key."""


def source(props: Mapping[str, str]) -> Errors:
    """`MirrorSourceConnector.validate`."""
    found: Errors = {}
    if props.get(keys.EXACTLY_ONCE) == "required" and not reads_committed(props):
        found[keys.EXACTLY_ONCE] = [
            "MirrorSourceConnector can only provide exactly-once guarantees when its source "
            f"consumer is configured with isolation.level set to '{READ_COMMITTED}'; otherwise, "
            "records from aborted and uncommitted transactions will be replicated from the source "
            "cluster to the target cluster."
        ]
    prefixes = ("offset-syncs-", "offset-syncs.topic.")
    if props.get(keys.EMIT_SYNCS) == "false" and any(each.startswith(prefixes) for each in props):
        found[keys.EMIT_SYNCS] = [
            "MirrorSourceConnector can't setup offset-syncs feature while "
            f"{keys.EMIT_SYNCS} set to false"
        ]
    return found


def checkpoint(props: Mapping[str, str]) -> Errors:
    """`MirrorCheckpointConfig.validate`."""
    found: Errors = {}
    if props.get(keys.ENABLED) == "false":
        return found
    if props.get(keys.EMIT_CHECKPOINTS) == "false":
        found[keys.EMIT_CHECKPOINTS] = [
            f"MirrorCheckpointConnector can't run with {keys.EMIT_CHECKPOINTS} set to false"
        ]
    if props.get(keys.EMIT_SYNCS) == "false":
        found[keys.EMIT_SYNCS] = ["MirrorCheckpointConnector can't run without offset syncs"]
    return found


def exactly_once(props: Mapping[str, str]) -> connector.ExactlyOnceSupport:
    """What Java's connector answers for the configuration."""
    if reads_committed(props):
        return connector.ExactlyOnceSupport.SUPPORTED
    return connector.ExactlyOnceSupport.UNSUPPORTED


def reads_committed(props: Mapping[str, str]) -> bool:
    """Would Java's source consumer be told to? (Ours always reads so.)"""
    return roles.properties(props, roles.SOURCE_CONSUMER).get("isolation.level") == READ_COMMITTED


def validate(
    definition: config_def.ConfigDef,
    props: Mapping[str, str],
    *,
    across: Errors,
    load: config_types.LoadClass = java_classes.load,
) -> list[config_def.ConfigValue]:
    """Every key by itself, with the messages of `across` added to theirs."""
    values = definition.validate_all(props, load=load)
    for name, messages in across.items():
        if name not in values:
            values[name] = config_def.ConfigValue(name=name)
        values[name].error_messages.extend(messages)
    return list(values.values())
