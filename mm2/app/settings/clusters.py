"""The `clusters` section: an alias each, with Kafka's client properties.

Plain properties go for every client of a cluster; `consumer.`, `producer.` and `admin.` before a
property's name are for those that read its records, write them, or administer (`Role`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.adapters.config import value_providers, yaml_source
from connect_runtime.app.settings import problems, sensitive
from connect_runtime.wire.codec import oauth_settings, security_settings
from connect_runtime.wire.connection import security as tls
from connect_runtime.wire.connection import store_files
from mm2.app.settings import reader, settings
from mm2.core.configs import client_properties

# An alias becomes part of topic names, client ids and transactional ids.
_ALIAS = re.compile(r"[a-zA-Z0-9._-]{1,100}")
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s,:/\[\]]+):([0-9]{1,5})")
_BOOTSTRAP = "bootstrap.servers"
_PLACES = {
    "ssl.truststore": ("ssl.truststore.certificates", "ssl.truststore.location"),
    "ssl.keystore": ("ssl.keystore.certificate.chain", "ssl.keystore.location"),
}
"""Where certificates come from: of both, the first is what counts."""
_SENDS_SECRET = {"PLAIN": "the password", "OAUTHBEARER": "tokens"}
"""By SASL mechanism, what brokers are told as it is."""
_PEM = "PEM as openssl writes it, from -----BEGIN to -----END"

Role = settings.Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One property of a cluster: `key` is how the file calls it, `entry` is under its own name."""

    key: str
    entry: yaml_source.Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster as the file has it. `roles` are None where a mistake was noted.

    `line` is that of the cluster itself; `given` are its properties, plain and for each role.
    """

    line: int
    plain: settings.ClusterSettings | None
    roles: Mapping[Role, settings.ClusterSettings | None]
    given: Mapping[Role | None, tuple[Given, ...]]
    effective: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """`found` holds broken clusters too, so that a flow may name them."""

    found: Mapping[str, Cluster]

    @property
    def usable(self) -> Mapping[str, settings.ClusterSettings]:
        return {
            alias: found.plain for alias, found in self.found.items() if found.plain is not None
        }

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(self.found)

    @property
    def effective(self) -> Mapping[str, object]:
        return {
            alias: found.effective
            for alias, found in self.found.items()
            if found.plain is not None and None not in found.roles.values()
        }


@dataclass(slots=True)
class _Properties:
    """What is said of one kind of client, as far as it could be read."""

    texts: dict[str, str] = field(default_factory=dict, repr=False)
    lines: dict[str, int] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)


def read(account: reader.Account, section: yaml_source.Section) -> Clusters:
    """Mistakes are noted in `account`."""
    return Clusters(found={entry.key: _read_cluster(account, entry) for entry in section.entries})


def _read_cluster(account: reader.Account, entry: yaml_source.Entry) -> Cluster:
    path = f"clusters.{entry.key}"
    unusable = Cluster(line=entry.line, plain=None, roles={}, given={}, effective={})
    if not _ALIAS.fullmatch(entry.key):
        allowed = "letters, digits, dots, dashes and underscores, 100 at most"
        account.note(entry.line, path, "is no usable alias", given=entry.key, allowed=allowed)
        return unusable
    section = reader.as_section(account, entry, path=path)
    if section is None:
        return unusable
    given = _by_role(section, path)
    line = section.line
    plain = client(account, given[None], path=path, line=line)
    roles: dict[Role, settings.ClusterSettings | None] = {}
    shown = {} if plain is None else plain.properties.shown()
    for role in Role:
        own = given[role]
        roles[role] = plain
        if own and plain is not None:
            roles[role] = found = client(account, (*given[None], *own), path=path, line=line)
            hidden = {} if found is None else found.properties.shown()
            names = (each.entry.key for each in own)
            shown |= {role.prefix + name: hidden[name] for name in names if name in hidden}
    return Cluster(line=line, plain=plain, roles=roles, given=given, effective=shown)


def _by_role(section: yaml_source.Section, path: str) -> dict[Role | None, tuple[Given, ...]]:
    found: dict[Role | None, list[Given]] = {None: [], **{role: [] for role in Role}}
    for entry in section.entries:
        role = next((role for role in Role if entry.key.startswith(role.prefix)), None)
        bare = entry.key.removeprefix(role.prefix) if role else entry.key
        own = dataclasses.replace(entry, key=bare)
        found[role].append(Given(key=f"{path}.{entry.key}", entry=own))
    return {role: tuple(given) for role, given in found.items()}


def client(
    account: reader.Account, given: Sequence[Given], *, path: str, line: int
) -> settings.ClusterSettings | None:
    """The settings of one kind of client; of equal names the last one counts.

    None after mistakes, which are noted; `path` and `line` are for what is missing.
    """
    found = _Properties()
    for each in {each.entry.key: each for each in given}.values():
        _read_property(account, each, found=found)
    servers = _servers(account, path=path, line=line, found=found)
    security = _security(account, path=path, line=line, found=found)
    if found.broken or servers is None or security is None:
        return None
    return settings.ClusterSettings(
        bootstrap_servers=servers,
        security=security,
        properties=settings.ClientProperties(found.texts, secrets=frozenset(found.secrets)),
    )


def _read_property(account: reader.Account, given: Given, *, found: _Properties) -> None:
    entry, name, key = given.entry, given.entry.key, given.key
    found.lines[name] = entry.line
    found.keys[name] = key
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
    secret = resolved.secret or sensitive.is_sensitive(name)
    kind = client_properties.TAKEN.get(name)
    if kind is not None and not _parses(kind, text):
        shown = problems.HIDDEN if secret else text
        account.note(entry.line, key, "is not allowed", given=shown, allowed=kind.allowed)
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
    return "is not a known client property"


def _nearest(name: str) -> str | None:
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
    account: reader.Account, *, path: str, line: int, found: _Properties
) -> tuple[str, ...] | None:
    if _BOOTSTRAP not in found.lines:
        allowed = client_properties.TAKEN[_BOOTSTRAP].allowed
        account.note(line, path, f"{_BOOTSTRAP} is missing", allowed=allowed)
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
        found.keys[_BOOTSTRAP],
        "is not allowed",
        given=given,
        allowed=client_properties.TAKEN[_BOOTSTRAP].allowed,
    )
    return None


def _security(
    account: reader.Account, *, path: str, line: int, found: _Properties
) -> security_settings.Security | None:
    """Everything that TLS and SASL need, files read; None after a mistake was noted."""
    unread = any(name.startswith(client_properties.SECURITY_PREFIXES) for name in found.broken)
    parsed = security_settings.parse(found.texts, files=store_files.below(account.folder))
    for error in parsed.errors:
        if unread and error.key in security_settings.SUPPORTED:
            continue  # it may well be right once the unreadable keys are
        place = found.lines.get(error.key, line)
        key = found.keys.get(error.key, f"{path}.{error.key}")
        problem = _without_secrets(error.problem, found)
        account.note(place, key, problem, allowed=error.allowed)
    usable = parsed.security is not None and _are_usable(
        account, parsed.security, path=path, line=line, found=found
    )
    if parsed.security is not None:
        _warn_unsafe(account, parsed.security, line=line, found=found)
    return parsed.security if usable and not unread else None


def _warn_unsafe(
    account: reader.Account,
    security: security_settings.Security,
    *,
    line: int,
    found: _Properties,
) -> None:
    """Of what is allowed and gives a secret, or a connection, to whoever is on the network."""
    unsafe: dict[str, str] = {}
    if security.oauth is not None and security.oauth.in_clear:
        unsafe[oauth_settings.ENDPOINT] = (
            "is not https://, so the client secret and the tokens are sent unencrypted: use an "
            "https:// token endpoint"
        )
    if security.protocol == "SASL_PLAINTEXT" and security.mechanism in _SENDS_SECRET:
        unsafe["security.protocol"] = (
            f"SASL_PLAINTEXT with {security.mechanism} sends {_SENDS_SECRET[security.mechanism]} "
            "unencrypted over the network: use SASL_SSL"
        )
    if security.uses_tls and not security.check_hostname:
        unsafe["ssl.endpoint.identification.algorithm"] = (
            "is empty, so broker host names are not verified: anyone with a certificate from a "
            "trusted CA can impersonate a broker. Remove this setting; the brokers' certificates "
            "must contain their host names"
        )
    for name, text in unsafe.items():
        account.warn(found.lines.get(name, line), found.keys.get(name, name), text)


def _are_usable(
    account: reader.Account,
    security: security_settings.Security,
    *,
    path: str,
    line: int,
    found: _Properties,
) -> bool:
    """Are all certificates what OpenSSL takes? What is not is noted."""
    told = [(error.store, error.problem) for error in tls.unusable(security)]
    if security.oauth is not None:
        issuer = security_settings.Security(protocol="SSL", ca_pem=security.oauth.ca_pem)
        told += [("sasl.jaas.config", f"its option {error}") for error in tls.unusable(issuer)]
    for store, problem in told:
        name = next((name for name in _PLACES.get(store, ()) if found.texts.get(name)), store)
        key = found.keys.get(name, f"{path}.{name}")
        account.note(found.lines.get(name, line), key, problem, allowed=_PEM)
    return not told


def _without_secrets(words: str, found: _Properties) -> str:
    for name in found.secrets:
        if found.texts[name]:
            whole = rf"(?<!\w){re.escape(found.texts[name])}(?!\w)"  # a short one is in many words
            words = re.sub(whole, problems.HIDDEN, words, flags=re.IGNORECASE)
    return words


def _is_server(text: str) -> bool:
    match = _SERVER.fullmatch(text)
    return match is not None and 0 < int(match.group(2)) < 65_536
