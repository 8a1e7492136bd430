"""Warns about settings that are allowed but insecure, once, when the configuration file is read."""

from __future__ import annotations

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import config_errors, config_providers, worker_config_keys
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.protocol import oauthbearer
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.config import copy_engine_config, dedicated_mode
from mm2.config.mm2_settings import FlatProperties

CONNECT_PROTOCOL_KEY = "connect.protocol"
SESSIONED_PROTOCOL = "sessioned"
UNSIGNED_TEXT = (
    "does not sign requests between nodes: anyone who can reach a node's port can set the task"
    " configurations of its connectors (KIP-507)"
)
_CERTIFICATE_SUFFIXES = ("certificate.chain", "truststore.certificates")
"""Key suffixes of certificates, which do not count as secrets. Their values are hidden in output
only because they may also contain a private key."""
_SENT_SECRETS = {"PLAIN": "the password", "OAUTHBEARER": "tokens"}
"""The secrets that each SASL mechanism sends to brokers in plaintext."""
_REST_PREFIXES = ("listeners.", "admin.listeners.", "rest.")


def find_security_warnings(flat: FlatProperties) -> list[ConfigProblem]:
    """Return the security warnings with their lines. A single warning lists all plaintext
    secrets."""
    return [*_warn_about_unsigned_requests(flat), *_warn_inline_secrets(flat)]


def is_unsigned_connect_protocol(protocol: str) -> bool:
    """Return True if nodes that use this Connect protocol do not sign requests to each other."""
    given = protocol.strip().lower()
    return given in worker_config_keys.PROTOCOLS and given != SESSIONED_PROTOCOL


def _warn_about_unsigned_requests(flat: FlatProperties) -> list[ConfigProblem]:
    found = []
    for key, value in flat.props.items():
        if key != CONNECT_PROTOCOL_KEY and not key.endswith(f".{CONNECT_PROTOCOL_KEY}"):
            continue
        if is_unsigned_connect_protocol(value):
            line, name = flat.locations.get(key, (0, key))
            text = (
                f"{value.strip().upper()} {UNSIGNED_TEXT}; remove the setting once every node "
                "runs mm2,"
                " or Kafka 2.4 or newer"
            )
            found.append(ConfigProblem(line=line, key=name, text=text))
    return found


def _warn_inline_secrets(flat: FlatProperties) -> list[ConfigProblem]:
    """Warn about secrets in plaintext. References to config providers (`${…}`) are safe.

    Leaders write the secrets of connectors to config topics. `spark_section` warns about secrets in
    command lines.
    """
    found = {
        key
        for key, value in flat.props.items()
        if _contains_secret(key, value) and not config_providers.find_provider_names(value)
    }
    spark = {key for key in found if key.startswith(copy_engine_config.SPARK_CONF_PREFIX)}
    own = {key for key in spark if not key.endswith(copy_engine_config.COMMAND_LINE_SUFFIXES)}
    seen = "everyone who can read this file can see it"
    return [
        *_build_secrets_warning(flat, found - spark, _describe_config_topics(flat)),
        *_build_secrets_warning(flat, own, seen),
    ]


def _describe_config_topics(flat: FlatProperties) -> str:
    """Describe where connector secrets are stored. Returns "" if no flow is enabled."""
    try:
        flows = dedicated_mode.list_flows(flat.resolve(flat.props))
    except ConfigError:
        return ""
    topics = ", ".join(
        f"mm2-configs.{source}.internal" for source in sorted({each.source for each in flows})
    )
    return topics and (
        f"it is stored unencrypted in {topics} on the target, where everyone with read access can"
        " see it"
    )


def _build_secrets_warning(flat: FlatProperties, keys: set[str], who: str) -> list[ConfigProblem]:
    """Return one warning for all `keys`. `who` describes who can see the secrets. Returns no
    warning if `who` is ""."""
    if not keys or not who:
        return []
    ordered = sorted({flat.locations.get(key, (0, key)) for key in keys})
    line, key = ordered[0]
    others = "".join(f", {name}" for _, name in ordered[1:])
    text = (
        f"is a plaintext secret{f' (as are{others[1:]})' if others else ''}: {who}; use"
        " ${file:/path:key} or ${env:NAME}, so that only the reference is stored"
    )
    return [ConfigProblem(line=line, key=key, text=text)]


def _contains_secret(key: str, value: str) -> bool:
    if key.endswith(_CERTIFICATE_SUFFIXES) or key.startswith(_REST_PREFIXES):
        return False
    if config_errors.is_sensitive_key(key):
        return bool(value.strip())
    return config_errors.redact_secrets_in_value(value) != value


def find_unsafe_settings(security: SecuritySettings) -> dict[str, str]:
    """Return permitted client properties that expose secrets or weaken connection security, with
    the text of a warning for each."""
    unsafe: dict[str, str] = {}
    if security.oauth is not None and security.oauth.is_unencrypted:
        unsafe[oauthbearer.TOKEN_ENDPOINT_KEY] = (
            "is not https://, so the client secret and the tokens are sent unencrypted: use an "
            "https:// token endpoint"
        )
    if security.protocol == "SASL_PLAINTEXT" and security.mechanism in _SENT_SECRETS:
        unsafe["security.protocol"] = (
            f"SASL_PLAINTEXT with {security.mechanism} sends {_SENT_SECRETS[security.mechanism]} "
            "unencrypted over the network: use SASL_SSL"
        )
    if security.uses_tls and not security.check_hostname:
        unsafe["ssl.endpoint.identification.algorithm"] = (
            "is empty, so broker host names are not verified: anyone with a certificate from a "
            "trusted CA can impersonate a broker. Remove this setting; the brokers' certificates "
            "must contain their host names"
        )
    return unsafe
