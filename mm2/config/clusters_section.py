"""Reads the section `clusters`: the alias and the client properties of each cluster.

Properties without a prefix apply to every client of a cluster. The prefixes `consumer.`,
`producer.` and `admin.` limit a property to one client type.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.config import config_errors
from connect_runtime.config.config_providers import ResolvedText
from connect_runtime.config.yaml_parser import YamlEntry, YamlList, YamlScalar, YamlSection
from connect_runtime.network import keystore_files, tls_contexts
from connect_runtime.protocol import security_settings
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.config import client_config_keys, security_warnings, yaml_section_reader
from mm2.config.mm2_settings import ClientProperties, ClientType, ClusterSettings
from mm2.config.yaml_section_reader import AnyValueType, ProblemCollector

# An alias becomes part of topic names, client ids and transactional ids.
_ALIAS = re.compile(r"[a-zA-Z0-9._-]{1,100}")
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s,:/\[\]]+):([0-9]{1,5})")
_BOOTSTRAP_SERVERS = "bootstrap.servers"
_CERTIFICATE_KEYS = {
    "ssl.truststore": ("ssl.truststore.certificates", "ssl.truststore.location"),
    "ssl.keystore": ("ssl.keystore.certificate.chain", "ssl.keystore.location"),
}
"""Property keys from which certificates are read, by store (truststore or keystore). If both keys
of a store are set, the first takes precedence."""
_PEM_ALLOWED = "PEM text, from -----BEGIN to -----END"

Role = ClientType


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProperty:
    """A client property of a cluster."""

    key: str
    """Full path of the property in the file, for messages."""
    entry: YamlEntry
    """YAML entry of the property, with the unprefixed property name as its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEntry:
    """One cluster, as read from an entry of the section `clusters`."""

    line: int
    plain: ClusterSettings | None
    """Cluster settings that apply to all client types; None if they are invalid."""
    roles: Mapping[Role, ClusterSettings | None]
    """Cluster settings by client type (consumer, producer, admin); None if they are invalid."""
    properties_by_role: Mapping[Role | None, tuple[ClusterProperty, ...]]
    """Client properties in the file, by client type. The key None maps to the properties that apply
    to all clients."""
    effective: Mapping[str, str]
    """Property values as text, with secrets hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEntries:
    """All clusters of the section `clusters`."""

    by_alias: Mapping[str, ClusterEntry]
    """Cluster entries by alias. Invalid clusters are included so that flows can refer to them."""

    @property
    def valid_clusters(self) -> Mapping[str, ClusterSettings]:
        return {
            alias: found.plain for alias, found in self.by_alias.items() if found.plain is not None
        }

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(self.by_alias)

    @property
    def effective_properties(self) -> Mapping[str, object]:
        return {
            alias: found.effective
            for alias, found in self.by_alias.items()
            if found.plain is not None and None not in found.roles.values()
        }


@dataclass(slots=True)
class _CollectedClientProperties:
    """Client properties read so far from a section: their values, and the file's lines and keys
    that set them."""

    texts: dict[str, str] = field(default_factory=dict, repr=False)
    lines: dict[str, int] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)


def read_clusters_section(collector: ProblemCollector, section: YamlSection) -> ClusterEntries:
    """Read the section `clusters` and report problems to `collector`."""
    return ClusterEntries(
        by_alias={entry.key: _read_cluster(collector, entry) for entry in section.entries}
    )


def _read_cluster(collector: ProblemCollector, entry: YamlEntry) -> ClusterEntry:
    path = f"clusters.{entry.key}"
    unusable = ClusterEntry(
        line=entry.line, plain=None, roles={}, properties_by_role={}, effective={}
    )
    if not _ALIAS.fullmatch(entry.key):
        allowed = "at most 100 letters, digits, dots, dashes and underscores"
        collector.report_error(
            entry.line, path, "is not a valid alias", given=entry.key, allowed=allowed
        )
        return unusable
    section = yaml_section_reader.convert_to_section(collector, entry, path=path)
    if section is None:
        return unusable
    given = _group_properties_by_role(section, path)
    line = section.line
    plain = read_client_settings(collector, given[None], path=path, line=line)
    roles: dict[Role, ClusterSettings | None] = {}
    shown = {} if plain is None else plain.properties.redact_secrets()
    for role in Role:
        own = given[role]
        roles[role] = plain
        if own and plain is not None:
            roles[role] = found = read_client_settings(
                collector, (*given[None], *own), path=path, line=line
            )
            hidden = {} if found is None else found.properties.redact_secrets()
            names = (each.entry.key for each in own)
            shown |= {role.prefix + name: hidden[name] for name in names if name in hidden}
    return ClusterEntry(
        line=line, plain=plain, roles=roles, properties_by_role=given, effective=shown
    )


def _group_properties_by_role(
    section: YamlSection, path: str
) -> dict[Role | None, tuple[ClusterProperty, ...]]:
    found: dict[Role | None, list[ClusterProperty]] = {None: [], **{role: [] for role in Role}}
    for entry in section.entries:
        role = next((role for role in Role if entry.key.startswith(role.prefix)), None)
        bare = entry.key.removeprefix(role.prefix) if role else entry.key
        own = dataclasses.replace(entry, key=bare)
        found[role].append(ClusterProperty(key=f"{path}.{entry.key}", entry=own))
    return {role: tuple(given) for role, given in found.items()}


def read_client_settings(
    collector: ProblemCollector, given: Sequence[ClusterProperty], *, path: str, line: int
) -> ClusterSettings | None:
    """Read the settings of one client type. If a property occurs more than once, the last value
    applies.

    Reports problems and returns None if there are any. Missing properties are reported at the
    location `path` and `line`.
    """
    found = _CollectedClientProperties()
    for each in {each.entry.key: each for each in given}.values():
        _read_property(collector, each, found=found)
    servers = _read_bootstrap_servers(collector, path=path, line=line, found=found)
    security = _read_security_settings(collector, path=path, line=line, found=found)
    if found.broken or servers is None or security is None:
        return None
    return ClusterSettings(
        bootstrap_servers=servers,
        security=security,
        properties=ClientProperties(found.texts, secrets=frozenset(found.secrets)),
    )


def _read_property(
    collector: ProblemCollector, given: ClusterProperty, *, found: _CollectedClientProperties
) -> None:
    entry, name, key = given.entry, given.entry.key, given.key
    found.lines[name] = entry.line
    found.keys[name] = key
    reason = _explain_property_refusal(name)
    if reason is not None:
        nearest = (
            None if name in client_config_keys.KNOWN_PROPERTIES else _find_similar_property(name)
        )
        collector.report_error(entry.line, key, reason, nearest=nearest)
        found.broken.add(name)
        return
    resolved = _resolve_property_value(collector, entry, key=key)
    if resolved is None:
        found.broken.add(name)
        return
    text = resolved.text.strip()
    secret = resolved.is_secret or config_errors.is_sensitive_key(name)
    kind = client_config_keys.SUPPORTED_PROPERTIES.get(name)
    if kind is not None and not _is_valid_property_value(kind, text):
        shown = config_errors.HIDDEN_VALUE if secret else text
        collector.report_error(entry.line, key, "is not allowed", given=shown, allowed=kind.allowed)
        found.broken.add(name)
        return
    found.texts[name] = text
    if secret:
        found.secrets.add(name)


def _explain_property_refusal(name: str) -> str | None:
    """Return the reason why a client property is refused, or None if it is accepted."""
    if name in client_config_keys.REFUSED_PROPERTIES:
        return client_config_keys.REFUSED_PROPERTIES[name]
    if name in client_config_keys.SUPPORTED_PROPERTIES or name.startswith(
        client_config_keys.SECURITY_PREFIXES
    ):
        return None
    return "is not a known client property"


def _find_similar_property(name: str) -> str | None:
    return config_errors.find_nearest_name(name, client_config_keys.KNOWN_PROPERTIES)


def _resolve_property_value(
    collector: ProblemCollector, entry: YamlEntry, *, key: str
) -> ResolvedText | None:
    node = entry.value
    if isinstance(node, YamlScalar):
        return collector.resolve_scalar_text(node, key)
    if isinstance(node, YamlList) and entry.key == _BOOTSTRAP_SERVERS:
        parts = [
            collector.resolve_scalar_text(item, key)
            for item in node.items
            if isinstance(item, YamlScalar)
        ]
        texts = [part.text for part in parts if part is not None]
        if len(texts) == len(node.items):
            secret = any(part.is_secret for part in parts if part is not None)
            return ResolvedText(",".join(texts), is_secret=secret)
        if len(parts) == len(node.items):
            return None
    collector.report_error(entry.line, key, "must be a single value, as in a properties file")
    return None


def _is_valid_property_value(kind: AnyValueType, text: str) -> bool:
    try:
        kind.parse((text,))
    except ValueError:
        return False
    return True


def _read_bootstrap_servers(
    collector: ProblemCollector, *, path: str, line: int, found: _CollectedClientProperties
) -> tuple[str, ...] | None:
    if _BOOTSTRAP_SERVERS not in found.lines:
        allowed = client_config_keys.SUPPORTED_PROPERTIES[_BOOTSTRAP_SERVERS].allowed
        collector.report_error(line, path, f"{_BOOTSTRAP_SERVERS} is missing", allowed=allowed)
        return None
    if _BOOTSTRAP_SERVERS not in found.texts:
        return None
    servers = tuple(server.strip() for server in found.texts[_BOOTSTRAP_SERVERS].split(","))
    wrong = [server for server in servers if not _is_server_address(server)]
    if not wrong:
        return servers
    given = config_errors.HIDDEN_VALUE if _BOOTSTRAP_SERVERS in found.secrets else ", ".join(wrong)
    collector.report_error(
        found.lines[_BOOTSTRAP_SERVERS],
        found.keys[_BOOTSTRAP_SERVERS],
        "is not allowed",
        given=given,
        allowed=client_config_keys.SUPPORTED_PROPERTIES[_BOOTSTRAP_SERVERS].allowed,
    )
    return None


def _read_security_settings(
    collector: ProblemCollector, *, path: str, line: int, found: _CollectedClientProperties
) -> SecuritySettings | None:
    """Read the TLS and SASL settings, including certificate files. Reports problems and returns
    None if there are any."""
    unread = any(name.startswith(client_config_keys.SECURITY_PREFIXES) for name in found.broken)
    parsed = security_settings.parse_security_settings(
        found.texts, files=keystore_files.create_store_files(collector.folder)
    )
    for error in parsed.errors:
        if unread and error.key in security_settings.SUPPORTED_KEYS:
            continue  # possibly caused by the keys that could not be read
        place = found.lines.get(error.key, line)
        key = found.keys.get(error.key, f"{path}.{error.key}")
        problem = _hide_property_secrets(error.problem, found)
        collector.report_error(place, key, problem, allowed=error.allowed)
    usable = parsed.security is not None and _check_certificates(
        collector, parsed.security, path=path, line=line, found=found
    )
    if parsed.security is not None:
        for name, text in security_warnings.find_unsafe_settings(parsed.security).items():
            collector.report_warning(found.lines.get(name, line), found.keys.get(name, name), text)
    return parsed.security if usable and not unread else None


def _check_certificates(
    collector: ProblemCollector,
    security: SecuritySettings,
    *,
    path: str,
    line: int,
    found: _CollectedClientProperties,
) -> bool:
    """Return True if OpenSSL accepts all certificates. Reports each certificate problem."""
    told = [
        (error.store, error.problem) for error in tls_contexts.find_unusable_certificates(security)
    ]
    if security.oauth is not None:
        issuer = SecuritySettings(protocol="SSL", ca_pem=security.oauth.ca_pem)
        told += [
            ("sasl.jaas.config", f"its option {error}")
            for error in tls_contexts.find_unusable_certificates(issuer)
        ]
    for store, problem in told:
        name = next(
            (name for name in _CERTIFICATE_KEYS.get(store, ()) if found.texts.get(name)), store
        )
        key = found.keys.get(name, f"{path}.{name}")
        collector.report_error(found.lines.get(name, line), key, problem, allowed=_PEM_ALLOWED)
    return not told


def _hide_property_secrets(words: str, found: _CollectedClientProperties) -> str:
    for name in found.secrets:
        if found.texts[name]:
            # Whole words only: a short secret may be part of ordinary words.
            whole = rf"(?<!\w){re.escape(found.texts[name])}(?!\w)"
            words = re.sub(whole, config_errors.HIDDEN_VALUE, words, flags=re.IGNORECASE)
    return words


def _is_server_address(text: str) -> bool:
    match = _SERVER.fullmatch(text)
    return match is not None and 0 < int(match.group(2)) < 65_536
