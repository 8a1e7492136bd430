"""Findings about clusters and brokers that cannot be reached, and about expiring certificates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.protocol.request_errors import FailureLayer
from mm2 import operator_commands
from mm2.operator_commands import ClusterCommands
from mm2.preflight import check_report
from mm2.preflight.check_report import CheckArea, CheckedSubject, CheckFinding, CheckSeverity

_Layer = FailureLayer
_Area = CheckArea

_DAY_MS = 86_400_000
EXPIRY_WARNING_MS = 30 * _DAY_MS
"""A certificate that ends within that time is worth a warning."""

_AREA_BY_LAYER = {layer: _Area(layer.value) for layer in _Layer}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAttempt:
    """One address, "host:port": `layer` None says that it answered; `text` is why it did not.

    `node` is the broker that advertises it, None for an address of `bootstrap.servers`.
    `until_ms`: when the certificate that it shows ends.
    """

    address: str
    layer: _Layer | None = None
    text: str = ""
    node: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectResult:
    """What became of one way into a cluster: the login of `clients` (for people: "consumer of
    east->west"; none: of all), with `protocol` as `security.protocol` has it.

    `tool` is for the commands that people are told. `at_ms`: when this was; `own_until_ms`: when
    the certificate that we show ends.
    """

    alias: str
    clients: tuple[str, ...]
    protocol: str
    user: str
    bootstrap: tuple[ConnectAttempt, ...]
    brokers: tuple[ConnectAttempt, ...] = ()
    at_ms: int = 0
    own_until_ms: int | None = None
    tool: ClusterCommands = operator_commands.GENERIC_COMMANDS.source

    @property
    def answers(self) -> bool:
        """Did any address of `bootstrap.servers` let us in?"""
        return any(each.layer is None for each in self.bootstrap)

    @property
    def whole(self) -> bool:
        """Can every broker be reached, too?"""
        return self.answers and all(each.layer is None for each in self.brokers)

    def looked(self) -> CheckedSubject:
        """Which words were looked at, and which were hidden by failures before them."""
        applying = [word for word in check_report.CONNECTIVITY_AREAS if self._applies(word)]
        seen: set[_Area] = set()
        for each in self.bootstrap:
            depth = len(applying)
            if each.layer is not None:
                depth = applying.index(self._word(each.layer)) + 1
            seen.update(applying[:depth])
        return CheckedSubject(
            subject=self.alias,
            seen=frozenset(seen),
            skipped=frozenset(applying) - seen,
        )

    def _applies(self, word: _Area) -> bool:
        if word is _Area.TLS:
            return self.protocol.endswith("SSL")
        return word is not _Area.AUTH or self.protocol.startswith("SASL")

    def _word(self, layer: _Layer) -> _Area:
        """The cell of a failure: one that does not apply is the listener's."""
        word = _AREA_BY_LAYER[layer]
        return word if self._applies(word) else _Area.LISTENER

    def told(self) -> Iterator[CheckFinding]:
        """Of one that does not answer at all every address; of one that does, what is left. What
        several addresses answer alike is told once."""
        alike: dict[tuple[_Layer, str, int | None], list[str]] = {}
        for each in (*self.bootstrap, *self.brokers):
            if each.layer is not None:
                alike.setdefault((each.layer, each.text, each.node), []).append(each.address)
        for (layer, text, node), addresses in alike.items():
            tried = ConnectAttempt(address=addresses[0], layer=layer, text=text, node=node)
            yield self._finding(tried, layer, ", ".join(addresses))
        for each in (*self.bootstrap, *self.brokers):
            if each.layer is None and self._ends_soon(each.until_ms):
                yield self._soon(each.until_ms, f"the certificate of {each.address}", each.address)
        if self._ends_soon(self.own_until_ms):
            yield self._soon(self.own_until_ms, "the certificate that we show", "")

    def _ends_soon(self, until_ms: int | None) -> bool:
        return until_ms is not None and until_ms - self.at_ms < EXPIRY_WARNING_MS

    def _soon(self, until_ms: int | None, what: str, address: str) -> CheckFinding:
        days = max(0, (until_ms or 0) - self.at_ms) // _DAY_MS
        return CheckFinding(
            subject=self.alias,
            word=_Area.TLS,
            weight=CheckSeverity.WARNING,
            code="tls-expires-soon",
            text=f"{what} ends in {plurals.format_count(days, 'day')}",
            means="from then on nobody gets in",
            mend="have it renewed before",
            command=operator_commands.build_certificate_check(address) if address else "",
        )

    def _finding(self, tried: ConnectAttempt, layer: _Layer, addresses: str) -> CheckFinding:
        """`addresses` are all that answered so, `tried` the first of them."""
        word = self._word(layer)
        if tried.node is not None:
            cause = _FailureCause(
                code="broker-unreachable",
                means=f"partitions that broker {tried.node} leads can be neither read nor written",
                mend=f"correct advertised.listeners of broker {tried.node}, or let this machine "
                "reach that address",
            )
            if layer in (_Layer.DNS, _Layer.NETWORK):
                word = _Area.LISTENER
            else:
                cause = _find_cause(layer, tried.text)
            text = f"broker {tried.node} advertises {tried.address}: {tried.text}"
            weight = CheckSeverity.FAILED
        else:
            cause = _find_cause(layer, tried.text)
            text = f"{addresses} of bootstrap.servers: {tried.text}"
            weight = CheckSeverity.WARNING if self.answers else CheckSeverity.FAILED
        means = cause.means
        if weight is CheckSeverity.WARNING:
            means = "others of bootstrap.servers answer; when those are down, nobody does"
        return CheckFinding(
            subject=self.alias,
            word=word,
            weight=weight,
            code=cause.code,
            text=f"{text} ({', '.join(self.clients)})" if self.clients else text,
            means=means,
            mend=cause.mend.format(alias=self.alias, protocol=self.protocol, user=self.user),
            command=self._command(layer, tried.address),
        )

    def _command(self, layer: _Layer, address: str) -> str:
        """What shows more, or does it."""
        match layer:
            case _Layer.DNS:
                return operator_commands.build_dns_lookup(address)
            case _Layer.NETWORK:
                return operator_commands.build_port_test(address)
            case _Layer.PROTOCOL:
                return self.tool.show_versions()
            case _Layer.LISTENER | _Layer.TLS:
                return operator_commands.build_certificate_check(address)
            case _Layer.AUTH:
                return self.tool.show_user(self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailureCause:
    code: str
    means: str
    mend: str


_NOTHING_REPLICATED = "nothing can be copied from or to this cluster"
_CAUSE_BY_LAYER = {
    _Layer.DNS: _FailureCause(
        code="dns",
        means=_NOTHING_REPLICATED,
        mend="correct bootstrap.servers of {alias}, or the name server",
    ),
    _Layer.NETWORK: _FailureCause(
        code="network",
        means=_NOTHING_REPLICATED,
        mend="correct host and port in bootstrap.servers of {alias}, start the broker, or open "
        "the way through firewalls",
    ),
    _Layer.LISTENER: _FailureCause(
        code="listener",
        means=_NOTHING_REPLICATED,
        mend="set security.protocol of {alias} (now {protocol}) to what this listener speaks, or "
        "take the port of another listener",
    ),
    _Layer.TLS: _FailureCause(
        code="tls",
        means=_NOTHING_REPLICATED,
        mend="look at the broker's certificate and at ssl.truststore.* of {alias}",
    ),
    _Layer.AUTH: _FailureCause(
        code="auth-refused",
        means=_NOTHING_REPLICATED,
        mend="correct user and password (sasl.jaas.config) of {alias}, or have the user made on "
        "the cluster",
    ),
    _Layer.PROTOCOL: _FailureCause(
        code="protocol",
        means=_NOTHING_REPLICATED,
        mend="use brokers of Kafka 2.8 or newer for {alias}",
    ),
}
_CLIENT_CERTIFICATE_CAUSE = _FailureCause(
    code="tls-client",
    means=_NOTHING_REPLICATED,
    mend="give {alias} a client certificate that its brokers trust: ssl.keystore.*",
)
_CAUSES_BY_TEXT: tuple[tuple[_Layer, str, _FailureCause], ...] = (
    (
        _Layer.TLS,
        "has expired",
        _FailureCause(
            code="tls-expired",
            means=_NOTHING_REPLICATED,
            mend="have the brokers' certificate renewed, and look at this machine's clock",
        ),
    ),
    (
        _Layer.TLS,
        "mismatch",
        _FailureCause(
            code="tls-host-name",
            means=_NOTHING_REPLICATED,
            mend="name the host in bootstrap.servers of {alias} as its certificate does, or have "
            "the name added to the certificate",
        ),
    ),
    (
        _Layer.TLS,
        "issuer",
        _FailureCause(
            code="tls-untrusted",
            means=_NOTHING_REPLICATED,
            mend="put the certificate of who signed the brokers' into ssl.truststore.* of {alias}",
        ),
    ),
    (
        _Layer.TLS,
        "self-signed",
        _FailureCause(
            code="tls-untrusted",
            means=_NOTHING_REPLICATED,
            mend="put the certificate of who signed the brokers' into ssl.truststore.* of {alias}",
        ),
    ),
    (_Layer.TLS, "refused by the broker", _CLIENT_CERTIFICATE_CAUSE),
    (
        _Layer.AUTH,
        "does not offer",
        _FailureCause(
            code="auth-mechanism",
            means=_NOTHING_REPLICATED,
            mend="set sasl.mechanism of {alias} to one that the brokers offer",
        ),
    ),
)


def _find_cause(layer: _Layer, text: str) -> _FailureCause:
    for of, words, cause in _CAUSES_BY_TEXT:
        if of is layer and words in text:
            return cause
    return _CAUSE_BY_LAYER[layer]
