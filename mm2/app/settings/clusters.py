"""The `clusters` section: an alias each, with Kafka's client properties."""

from __future__ import annotations

import errno
import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.adapters.config import value_providers, yaml_source
from connect_runtime.wire.codec import security_settings
from mm2.app.settings import client_properties, problems, reader, settings

# An alias becomes part of topic names, client ids and transactional ids.
_ALIAS = re.compile(r"[a-zA-Z0-9._-]{1,100}")
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s,:/\[\]]+):([0-9]{1,5})")
_BOOTSTRAP = "bootstrap.servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """`aliases` holds the names of broken clusters too, so that a flow may name them."""

    usable: Mapping[str, settings.ClusterSettings]
    aliases: frozenset[str]
    effective: Mapping[str, object]


@dataclass(slots=True)
class _Properties:
    """What one cluster's section says, as far as it could be read."""

    texts: dict[str, str] = field(default_factory=dict, repr=False)
    lines: dict[str, int] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)


def read(account: reader.Account, section: yaml_source.Section) -> Clusters:
    """Mistakes are noted in `account`; what is usable is returned."""
    usable: dict[str, settings.ClusterSettings] = {}
    for entry in section.entries:
        cluster = _read_cluster(account, entry)
        if cluster is not None:
            usable[entry.key] = cluster
    return Clusters(
        usable=usable,
        aliases=frozenset(entry.key for entry in section.entries),
        effective={alias: cluster.properties.shown() for alias, cluster in usable.items()},
    )


def _read_cluster(
    account: reader.Account, entry: yaml_source.Entry
) -> settings.ClusterSettings | None:
    path = f"clusters.{entry.key}"
    if not _ALIAS.fullmatch(entry.key):
        allowed = "letters, digits, dots, dashes and underscores, 100 at most"
        account.note(entry.line, path, "is no usable alias", given=entry.key, allowed=allowed)
        return None
    section = reader.as_section(account, entry, path=path)
    if section is None:
        return None
    found = _Properties()
    for item in section.entries:
        _read_property(account, item, path=path, found=found)
    servers = _servers(account, section, path=path, found=found)
    security = _security(account, section, path=path, found=found)
    if found.broken or servers is None or security is None:
        return None
    return settings.ClusterSettings(
        bootstrap_servers=servers,
        security=security,
        properties=settings.ClientProperties(found.texts, secrets=frozenset(found.secrets)),
    )


def _read_property(
    account: reader.Account, entry: yaml_source.Entry, *, path: str, found: _Properties
) -> None:
    name, key = entry.key, f"{path}.{entry.key}"
    found.lines[name] = entry.line
    reason = _refusal(name)
    if reason is not None:
        nearest = None if name in client_properties.KNOWN else _nearest(name)
        account.note(entry.line, key, reason, nearest=nearest)
        found.broken.add(name)
        return
    resolved = _resolve(account, entry, key=key)
    if resolved is None:
        found.broken.add(name)
        return
    text = resolved.text.strip()
    secret = resolved.secret or client_properties.is_sensitive(name)
    kind = client_properties.TAKEN.get(name)
    if kind is not None and not _parses(kind, text):
        given = problems.HIDDEN if secret else text
        account.note(entry.line, key, "is not allowed", given=given, allowed=kind.allowed)
        found.broken.add(name)
        return
    found.texts[name] = text
    if secret:
        found.secrets.add(name)


def _refusal(name: str) -> str | None:
    """Why a property is not taken; None: it is."""
    if name in client_properties.REFUSED:
        return client_properties.REFUSED[name]
    if name in client_properties.TAKEN or name.startswith(client_properties.SECURITY_PREFIXES):
        return None
    for prefix in client_properties.ROLE_PREFIXES:
        bare = name.removeprefix(prefix)
        known = bare in client_properties.KNOWN
        if bare != name and (known or bare.startswith(client_properties.SECURITY_PREFIXES)):
            return (
                f"is not supported yet: settings of one client only; write {bare} for all of them"
            )
    return "is not a known client property"


def _nearest(name: str) -> str | None:
    if name.startswith(client_properties.ROLE_PREFIXES):
        return None
    return problems.nearest(name, client_properties.KNOWN)


def _resolve(
    account: reader.Account, entry: yaml_source.Entry, *, key: str
) -> value_providers.Resolved | None:
    node = entry.value
    if isinstance(node, yaml_source.Scalar):
        return account.resolve(node, key)
    if isinstance(node, yaml_source.Listing) and entry.key == _BOOTSTRAP:
        parts = [
            account.resolve(item, key)
            for item in node.items
            if isinstance(item, yaml_source.Scalar)
        ]
        texts = [part.text for part in parts if part is not None]
        if len(texts) == len(node.items):
            secret = any(part.secret for part in parts if part is not None)
            return value_providers.Resolved(",".join(texts), secret=secret)
        if len(parts) == len(node.items):
            return None
    account.note(entry.line, key, "has to be one value, as in a properties file")
    return None


def _parses(kind: reader.AnyKind, text: str) -> bool:
    try:
        kind.parse((text,))
    except ValueError:
        return False
    return True


def _servers(
    account: reader.Account, section: yaml_source.Section, *, path: str, found: _Properties
) -> tuple[str, ...] | None:
    if _BOOTSTRAP not in found.lines:
        allowed = client_properties.TAKEN[_BOOTSTRAP].allowed
        account.note(section.line, path, f"{_BOOTSTRAP} is missing", allowed=allowed)
        return None
    if _BOOTSTRAP not in found.texts:
        return None
    servers = tuple(server.strip() for server in found.texts[_BOOTSTRAP].split(","))
    wrong = [server for server in servers if not _is_server(server)]
    if not wrong:
        return servers
    given = problems.HIDDEN if _BOOTSTRAP in found.secrets else ", ".join(wrong)
    account.note(
        found.lines[_BOOTSTRAP],
        f"{path}.{_BOOTSTRAP}",
        "is not allowed",
        given=given,
        allowed=client_properties.TAKEN[_BOOTSTRAP].allowed,
    )
    return None


def _security(
    account: reader.Account, section: yaml_source.Section, *, path: str, found: _Properties
) -> security_settings.Security | None:
    """Everything that TLS and SASL need, files read; None after a mistake was noted."""
    unread = any(name.startswith(client_properties.SECURITY_PREFIXES) for name in found.broken)
    parsed = security_settings.parse(
        found.texts, read_text=lambda name: _read_text(account.folder / name)
    )
    for error in parsed.errors:
        if unread and error.key in security_settings.SUPPORTED:
            continue  # it may well be right once the unreadable keys are
        line = found.lines.get(error.key, section.line)
        problem = _without_secrets(error.problem, found)
        account.note(line, f"{path}.{error.key}", problem, allowed=error.allowed)
    return None if unread else parsed.security


def _read_text(file: pathlib.Path) -> str:
    if "\0" in str(file):
        raise FileNotFoundError(errno.ENOENT, "a path cannot hold a NUL character")
    return file.read_text("utf-8")


def _without_secrets(words: str, found: _Properties) -> str:
    for name in found.secrets:
        if found.texts[name]:
            hidden = re.escape(found.texts[name])
            words = re.sub(hidden, problems.HIDDEN, words, flags=re.IGNORECASE)
    return words


def _is_server(text: str) -> bool:
    match = _SERVER.fullmatch(text)
    return match is not None and 0 < int(match.group(2)) < 65_536
