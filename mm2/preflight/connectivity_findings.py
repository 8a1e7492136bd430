"""Findings about clusters and brokers that cannot be reached, and about expiring certificates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.protocol.request_errors import RequestFailureLayer
from mm2 import suggested_commands
from mm2.preflight import check_report
from mm2.preflight.check_report import CheckArea, CheckedSubject, CheckFinding, CheckSeverity
from mm2.suggested_commands import ClusterCommands

_Layer = RequestFailureLayer
_Area = CheckArea

_DAY_MS = 86_400_000
EXPIRY_WARNING_MS = 30 * _DAY_MS
"""Time before expiry at which a certificate warning is reported."""

_AREA_BY_LAYER = {layer: _Area(layer.value) for layer in _Layer}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAttempt:
    """Result of connecting to one address, "host:port"."""

    address: str
    layer: _Layer | None = None
    """Layer that failed; None if the address responded."""
    text: str = ""
    """Reason for the failure."""
    node: int | None = None
    """Broker that advertises the address; None for an address of `bootstrap.servers`."""
    expires_ms: int | None = None
    """Expiry time of the certificate at this address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectResult:
    """Result of connecting to a cluster with one login."""

    alias: str
    clients: tuple[str, ...]
    """Clients that use this login ("consumer of east->west"); empty for all clients."""
    protocol: str
    """Value of `security.protocol`."""
    user: str
    bootstrap: tuple[ConnectAttempt, ...]
    brokers: tuple[ConnectAttempt, ...] = ()
    at_ms: int = 0
    """Time of the check in wall-clock milliseconds."""
    client_expires_ms: int | None = None
    """Expiry time of the client certificate."""
    tool: ClusterCommands = suggested_commands.GENERIC_COMMANDS.source
    """Suggested commands for the operator."""

    @property
    def is_reachable(self) -> bool:
        """True if any address of `bootstrap.servers` accepted the client."""
        return any(each.layer is None for each in self.bootstrap)

    @property
    def is_complete(self) -> bool:
        """True if the cluster and all its brokers are reachable."""
        return self.is_reachable and all(each.layer is None for each in self.brokers)

    def summarize_areas(self) -> CheckedSubject:
        """Return the areas that were checked, and the areas that were skipped after failures."""
        applying = [
            area for area in check_report.CONNECTIVITY_AREAS if self._is_area_applicable(area)
        ]
        seen: set[_Area] = set()
        for each in self.bootstrap:
            depth = len(applying)
            if each.layer is not None:
                depth = applying.index(self._find_area(each.layer)) + 1
            seen.update(applying[:depth])
        return CheckedSubject(
            subject=self.alias,
            checked=frozenset(seen),
            skipped=frozenset(applying) - seen,
        )

    def _is_area_applicable(self, area: _Area) -> bool:
        if area is _Area.TLS:
            return self.protocol.endswith("SSL")
        return area is not _Area.AUTH or self.protocol.startswith("SASL")

    def _find_area(self, layer: _Layer) -> _Area:
        """Return the area of a failure, or LISTENER if the layer does not apply to the protocol."""
        area = _AREA_BY_LAYER[layer]
        return area if self._is_area_applicable(area) else _Area.LISTENER

    def list_findings(self) -> Iterator[CheckFinding]:
        """Yield findings about failed addresses and expiring certificates. Identical failures of
        several addresses are merged into one finding."""
        alike: dict[tuple[_Layer, str, int | None], list[str]] = {}
        for each in (*self.bootstrap, *self.brokers):
            if each.layer is not None:
                alike.setdefault((each.layer, each.text, each.node), []).append(each.address)
        for (layer, text, node), addresses in alike.items():
            tried = ConnectAttempt(address=addresses[0], layer=layer, text=text, node=node)
            yield self._build_finding(tried, layer, ", ".join(addresses))
        for each in (*self.bootstrap, *self.brokers):
            if each.layer is None and self._is_expiring_soon(each.expires_ms):
                yield self._make_expiry_finding(
                    each.expires_ms, f"the certificate of {each.address}", each.address
                )
        if self._is_expiring_soon(self.client_expires_ms):
            yield self._make_expiry_finding(self.client_expires_ms, "the client certificate", "")

    def _is_expiring_soon(self, until_ms: int | None) -> bool:
        return until_ms is not None and until_ms - self.at_ms < EXPIRY_WARNING_MS

    def _make_expiry_finding(self, until_ms: int | None, what: str, address: str) -> CheckFinding:
        days = max(0, (until_ms or 0) - self.at_ms) // _DAY_MS
        return CheckFinding(
            subject=self.alias,
            area=_Area.TLS,
            severity=CheckSeverity.WARNING,
            code="tls-expires-soon",
            text=f"{what} expires in {plurals.format_count(days, 'day')}",
            effect="TLS connections fail after the certificate has expired",
            fix="renew it before",
            command=suggested_commands.build_certificate_check_command(address) if address else "",
        )

    def _build_finding(self, tried: ConnectAttempt, layer: _Layer, addresses: str) -> CheckFinding:
        """Build a finding for `addresses` that failed for the same reason. `tried` is the attempt
        for the first address."""
        area = self._find_area(layer)
        if tried.node is not None:
            cause = _FailureCause(
                code="broker-unreachable",
                effect=f"partitions that broker {tried.node} leads can be neither read nor written",
                fix=(
                    f"correct advertised.listeners of broker {tried.node}, or make this address "
                    "reachable from this machine"
                ),
            )
            if layer in (_Layer.DNS, _Layer.NETWORK):
                area = _Area.LISTENER
            else:
                cause = _find_failure_cause(layer, tried.text)
            text = f"broker {tried.node} advertises {tried.address}: {tried.text}"
            severity = CheckSeverity.FAILED
        else:
            cause = _find_failure_cause(layer, tried.text)
            text = f"{addresses} of bootstrap.servers: {tried.text}"
            severity = CheckSeverity.WARNING if self.is_reachable else CheckSeverity.FAILED
        effect = cause.effect
        if severity is CheckSeverity.WARNING:
            effect = "other bootstrap addresses respond, and clients cannot connect without them"
        return CheckFinding(
            subject=self.alias,
            area=area,
            severity=severity,
            code=cause.code,
            text=f"{text} ({', '.join(self.clients)})" if self.clients else text,
            effect=effect,
            fix=cause.fix.format(alias=self.alias, protocol=self.protocol, user=self.user),
            command=self._build_diagnostic_command(layer, tried.address),
        )

    def _build_diagnostic_command(self, layer: _Layer, address: str) -> str:
        """Return a command that shows details of the failure or fixes it."""
        match layer:
            case _Layer.DNS:
                return suggested_commands.build_dns_lookup_command(address)
            case _Layer.NETWORK:
                return suggested_commands.build_port_test_command(address)
            case _Layer.PROTOCOL:
                return self.tool.build_show_versions_command()
            case _Layer.LISTENER | _Layer.TLS:
                return suggested_commands.build_certificate_check_command(address)
            case _Layer.AUTH:
                return self.tool.build_show_user_command(self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailureCause:
    """Finding code, effect and fix for a cause of connection failures."""

    code: str
    effect: str
    fix: str


_NOTHING_REPLICATED = "nothing can be replicated from or to this cluster"
_CAUSE_BY_LAYER = {
    _Layer.DNS: _FailureCause(
        code="dns",
        effect=_NOTHING_REPLICATED,
        fix="correct bootstrap.servers of {alias}, or the DNS entry",
    ),
    _Layer.NETWORK: _FailureCause(
        code="network",
        effect=_NOTHING_REPLICATED,
        fix=(
            "correct the host and port in bootstrap.servers of {alias}, start the broker, or open "
            "the firewall"
        ),
    ),
    _Layer.LISTENER: _FailureCause(
        code="listener",
        effect=_NOTHING_REPLICATED,
        fix="set security.protocol of {alias} (now {protocol}) to this listener's protocol, or "
        "use the port of another listener",
    ),
    _Layer.TLS: _FailureCause(
        code="tls",
        effect=_NOTHING_REPLICATED,
        fix="check the broker's certificate and ssl.truststore.* of {alias}",
    ),
    _Layer.AUTH: _FailureCause(
        code="auth-refused",
        effect=_NOTHING_REPLICATED,
        fix=(
            "correct the user and password (sasl.jaas.config) of {alias}, or create the user on "
            "the cluster"
        ),
    ),
    _Layer.PROTOCOL: _FailureCause(
        code="protocol",
        effect=_NOTHING_REPLICATED,
        fix="upgrade the brokers of {alias} to Kafka 2.8 or later",
    ),
}
_CLIENT_CERTIFICATE_CAUSE = _FailureCause(
    code="tls-client",
    effect=_NOTHING_REPLICATED,
    fix="configure a client certificate for {alias} that its brokers trust: ssl.keystore.*",
)
_CAUSES_BY_TEXT: tuple[tuple[_Layer, str, _FailureCause], ...] = (
    (
        _Layer.TLS,
        "has expired",
        _FailureCause(
            code="tls-expired",
            effect=_NOTHING_REPLICATED,
            fix="renew the brokers' certificate, and check this machine's clock",
        ),
    ),
    (
        _Layer.TLS,
        "mismatch",
        _FailureCause(
            code="tls-host-name",
            effect=_NOTHING_REPLICATED,
            fix=(
                "use the host name in the certificate for bootstrap.servers of {alias}, or add "
                "the name to the certificate"
            ),
        ),
    ),
    (
        _Layer.TLS,
        "issuer",
        _FailureCause(
            code="tls-untrusted",
            effect=_NOTHING_REPLICATED,
            fix="add the CA certificate of the brokers to ssl.truststore.* of {alias}",
        ),
    ),
    (
        _Layer.TLS,
        "self-signed",
        _FailureCause(
            code="tls-untrusted",
            effect=_NOTHING_REPLICATED,
            fix="add the CA certificate of the brokers to ssl.truststore.* of {alias}",
        ),
    ),
    (_Layer.TLS, "rejected by the broker", _CLIENT_CERTIFICATE_CAUSE),
    (
        _Layer.AUTH,
        "does not offer",
        _FailureCause(
            code="auth-mechanism",
            effect=_NOTHING_REPLICATED,
            fix="set sasl.mechanism of {alias} to a mechanism that the brokers support",
        ),
    ),
)


def _find_failure_cause(layer: _Layer, text: str) -> _FailureCause:
    for of, words, cause in _CAUSES_BY_TEXT:
        if of is layer and words in text:
            return cause
    return _CAUSE_BY_LAYER[layer]
