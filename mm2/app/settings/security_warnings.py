"""Warnings about settings that are allowed but unsafe, logged once when the file is read."""

from __future__ import annotations

from connect_runtime.adapters.config import value_providers
from connect_runtime.api import errors
from connect_runtime.app.settings import problems, sensitive
from connect_runtime.core.task import worker_keys
from mm2.app.settings import settings
from mm2.core.configs import dedicated

PROTOCOL = "connect.protocol"
SESSIONED = "sessioned"
UNSIGNED = (
    "does not sign requests between nodes: anyone who can reach a node's port can set the task"
    " configurations of its connectors (KIP-507)"
)
_PUBLIC = ("certificate.chain", "truststore.certificates")
_OF_REST = ("listeners.", "admin.listeners.", "rest.")


def warnings(flat: settings.Flat) -> list[problems.Problem]:
    """At the lines of the file. Of secrets one for all, with their keys."""
    return [*_unsigned(flat), *_inline_secrets(flat)]


def is_unsigned(protocol: str) -> bool:
    """Is it one of Connect's protocols that sign nothing?"""
    given = protocol.strip().lower()
    return given in worker_keys.PROTOCOLS and given != SESSIONED


def _unsigned(flat: settings.Flat) -> list[problems.Problem]:
    found = []
    for key, value in flat.props.items():
        if key != PROTOCOL and not key.endswith(f".{PROTOCOL}"):
            continue
        if is_unsigned(value):
            line, name = flat.places.get(key, (0, key))
            text = (
                f"{value.strip().upper()} {UNSIGNED}; remove the setting once every node runs mm2,"
                " or Kafka 2.4 or newer"
            )
            found.append(problems.Problem(line=line, key=name, text=text))
    return found


def _inline_secrets(flat: settings.Flat) -> list[problems.Problem]:
    """Those that leaders write to the topics of configurations, where a reference stays one."""
    try:
        flows = dedicated.flows(flat.resolve(flat.props))
    except errors.ConfigError:
        return []
    places = {
        flat.places.get(key, (0, key))
        for key, value in flat.props.items()
        if _is_secret(key) and value.strip() and not value_providers.named(value)
    }
    if not places or not flows:
        return []
    ordered = sorted(places)
    topics = ", ".join(
        f"mm2-configs.{source}.internal" for source in sorted({each.source for each in flows})
    )
    line, key = ordered[0]
    others = "".join(f", {name}" for _, name in ordered[1:])
    text = (
        f"is a plaintext secret{f' (as are{others[1:]})' if others else ''}: it is stored"
        f" unencrypted in {topics} on the target, where everyone with read access can see it; use"
        " ${file:/path:key} or ${env:NAME}, of which only the reference is stored"
    )
    return [problems.Problem(line=line, key=key, text=text)]


def _is_secret(key: str) -> bool:
    return (
        sensitive.is_sensitive(key) and not key.endswith(_PUBLIC) and not key.startswith(_OF_REST)
    )
