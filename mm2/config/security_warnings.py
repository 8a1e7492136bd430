"""Warns of settings that are allowed but insecure, once when the file is read."""

from __future__ import annotations

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import config_errors, config_providers, worker_keys
from connect_runtime.config.config_errors import ConfigProblem
from mm2.config import dedicated_mode
from mm2.config.mm2_settings import FlatProperties

CONNECT_PROTOCOL_KEY = "connect.protocol"
SESSIONED_PROTOCOL = "sessioned"
UNSIGNED_TEXT = (
    "does not sign requests between nodes: anyone who can reach a node's port can set the task"
    " configurations of its connectors (KIP-507)"
)
_PUBLIC_SUFFIXES = ("certificate.chain", "truststore.certificates")
_REST_PREFIXES = ("listeners.", "admin.listeners.", "rest.")


def find_warnings(flat: FlatProperties) -> list[ConfigProblem]:
    """Security warnings with their lines; all plaintext secrets are in one warning."""
    return [*_warn_unsigned(flat), *_warn_inline_secrets(flat)]


def is_unsigned_protocol(protocol: str) -> bool:
    """Whether this Connect protocol does not sign requests between nodes."""
    given = protocol.strip().lower()
    return given in worker_keys.PROTOCOLS and given != SESSIONED_PROTOCOL


def _warn_unsigned(flat: FlatProperties) -> list[ConfigProblem]:
    found = []
    for key, value in flat.props.items():
        if key != CONNECT_PROTOCOL_KEY and not key.endswith(f".{CONNECT_PROTOCOL_KEY}"):
            continue
        if is_unsigned_protocol(value):
            line, name = flat.locations.get(key, (0, key))
            text = (
                f"{value.strip().upper()} {UNSIGNED_TEXT}; remove the setting once every node "
                "runs mm2,"
                " or Kafka 2.4 or newer"
            )
            found.append(ConfigProblem(line=line, key=name, text=text))
    return found


def _warn_inline_secrets(flat: FlatProperties) -> list[ConfigProblem]:
    """Warn of secrets in plaintext, which leaders write to config topics; references are safe."""
    try:
        flows = dedicated_mode.list_flows(flat.resolve(flat.props))
    except ConfigError:
        return []
    places = {
        flat.locations.get(key, (0, key))
        for key, value in flat.props.items()
        if _is_secret(key) and value.strip() and not config_providers.find_provider_names(value)
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
    return [ConfigProblem(line=line, key=key, text=text)]


def _is_secret(key: str) -> bool:
    return (
        config_errors.is_sensitive(key)
        and not key.endswith(_PUBLIC_SUFFIXES)
        and not key.startswith(_REST_PREFIXES)
    )
