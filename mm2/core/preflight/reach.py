"""What it means that a cluster, or one of its brokers, cannot be reached as the file says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connect_runtime.base import amounts
from connect_runtime.wire.codec import failures
from mm2.core import commands
from mm2.core.preflight import findings

_Layer = failures.Layer
_Word = findings.Word

_DAY_MS = 86_400_000
SOON_MS = 30 * _DAY_MS
"""A certificate that ends within that time is worth a warning."""

_TO_WORD = {layer: _Word(layer.value) for layer in _Layer}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
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
class Reached:
    """What became of one way into a cluster: the login of `clients` (for people: "consumer of
    east->west"; none: of all), with `protocol` as `security.protocol` has it.

    `tool` is for the commands that people are told. `at_ms`: when this was; `own_until_ms`: when
    the certificate that we show ends.
    """

    alias: str
    clients: tuple[str, ...]
    protocol: str
    user: str
    bootstrap: tuple[Tried, ...]
    brokers: tuple[Tried, ...] = ()
    at_ms: int = 0
    own_until_ms: int | None = None
    tool: commands.Cluster = commands.NOBODY.source

    @property
    def answers(self) -> bool:
        """Did any address of `bootstrap.servers` let us in?"""
        return any(each.layer is None for each in self.bootstrap)

    @property
    def whole(self) -> bool:
        """Can every broker be reached, too?"""
        return self.answers and all(each.layer is None for each in self.brokers)

    def looked(self) -> findings.Looked:
        """Which words were looked at, and which were hidden by failures before them."""
        applying = [word for word in findings.REACHING if self._applies(word)]
        seen: set[_Word] = set()
        for each in self.bootstrap:
            depth = len(applying)
            if each.layer is not None:
                depth = applying.index(self._word(each.layer)) + 1
            seen.update(applying[:depth])
        return findings.Looked(
            subject=self.alias,
            seen=frozenset(seen),
            skipped=frozenset(applying) - seen,
        )

    def _applies(self, word: _Word) -> bool:
        if word is _Word.TLS:
            return self.protocol.endswith("SSL")
        return word is not _Word.AUTH or self.protocol.startswith("SASL")

    def _word(self, layer: _Layer) -> _Word:
        """The cell of a failure: one that does not apply is the listener's."""
        word = _TO_WORD[layer]
        return word if self._applies(word) else _Word.LISTENER

    def told(self) -> Iterator[findings.Finding]:
        """Of one that does not answer at all every address; of one that does, what is left. What
        several addresses answer alike is told once."""
        alike: dict[tuple[_Layer, str, int | None], list[str]] = {}
        for each in (*self.bootstrap, *self.brokers):
            if each.layer is not None:
                alike.setdefault((each.layer, each.text, each.node), []).append(each.address)
        for (layer, text, node), addresses in alike.items():
            tried = Tried(address=addresses[0], layer=layer, text=text, node=node)
            yield self._finding(tried, layer, ", ".join(addresses))
        for each in (*self.bootstrap, *self.brokers):
            if each.layer is None and self._ends_soon(each.until_ms):
                yield self._soon(each.until_ms, f"the certificate of {each.address}", each.address)
        if self._ends_soon(self.own_until_ms):
            yield self._soon(self.own_until_ms, "the certificate that we show", "")

    def _ends_soon(self, until_ms: int | None) -> bool:
        return until_ms is not None and until_ms - self.at_ms < SOON_MS

    def _soon(self, until_ms: int | None, what: str, address: str) -> findings.Finding:
        days = max(0, (until_ms or 0) - self.at_ms) // _DAY_MS
        return findings.Finding(
            subject=self.alias,
            word=_Word.TLS,
            weight=findings.Weight.WARNING,
            code="tls-expires-soon",
            text=f"{what} ends in {amounts.counted(days, 'day')}",
            means="from then on nobody gets in",
            mend="have it renewed before",
            command=commands.show_certificate(address) if address else "",
        )

    def _finding(self, tried: Tried, layer: _Layer, addresses: str) -> findings.Finding:
        """`addresses` are all that answered so, `tried` the first of them."""
        word = self._word(layer)
        if tried.node is not None:
            cause = _Cause(
                code="broker-unreachable",
                means=f"partitions that broker {tried.node} leads can be neither read nor written",
                mend=f"correct advertised.listeners of broker {tried.node}, or let this machine "
                "reach that address",
            )
            if layer in (_Layer.DNS, _Layer.NETWORK):
                word = _Word.LISTENER
            else:
                cause = _cause(layer, tried.text)
            text = f"broker {tried.node} advertises {tried.address}: {tried.text}"
            weight = findings.Weight.FAILED
        else:
            cause = _cause(layer, tried.text)
            text = f"{addresses} of bootstrap.servers: {tried.text}"
            weight = findings.Weight.WARNING if self.answers else findings.Weight.FAILED
        means = cause.means
        if weight is findings.Weight.WARNING:
            means = "others of bootstrap.servers answer; when those are down, nobody does"
        return findings.Finding(
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
                return commands.look_up(address)
            case _Layer.NETWORK:
                return commands.try_port(address)
            case _Layer.PROTOCOL:
                return self.tool.show_versions()
            case _Layer.LISTENER | _Layer.TLS:
                return commands.show_certificate(address)
            case _Layer.AUTH:
                return self.tool.show_user(self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    code: str
    means: str
    mend: str


_NOTHING = "nothing can be copied from or to this cluster"
_BY_LAYER = {
    _Layer.DNS: _Cause(
        code="dns",
        means=_NOTHING,
        mend="correct bootstrap.servers of {alias}, or the name server",
    ),
    _Layer.NETWORK: _Cause(
        code="network",
        means=_NOTHING,
        mend="correct host and port in bootstrap.servers of {alias}, start the broker, or open "
        "the way through firewalls",
    ),
    _Layer.LISTENER: _Cause(
        code="listener",
        means=_NOTHING,
        mend="set security.protocol of {alias} (now {protocol}) to what this listener speaks, or "
        "take the port of another listener",
    ),
    _Layer.TLS: _Cause(
        code="tls",
        means=_NOTHING,
        mend="look at the broker's certificate and at ssl.truststore.* of {alias}",
    ),
    _Layer.AUTH: _Cause(
        code="auth-refused",
        means=_NOTHING,
        mend="correct user and password (sasl.jaas.config) of {alias}, or have the user made on "
        "the cluster",
    ),
    _Layer.PROTOCOL: _Cause(
        code="protocol",
        means=_NOTHING,
        mend="use brokers of Kafka 2.8 or newer for {alias}",
    ),
}
_OWN_CERTIFICATE = _Cause(
    code="tls-client",
    means=_NOTHING,
    mend="give {alias} a client certificate that its brokers trust: ssl.keystore.*",
)
_BY_TEXT: tuple[tuple[_Layer, str, _Cause], ...] = (
    (
        _Layer.TLS,
        "has expired",
        _Cause(
            code="tls-expired",
            means=_NOTHING,
            mend="have the brokers' certificate renewed, and look at this machine's clock",
        ),
    ),
    (
        _Layer.TLS,
        "mismatch",
        _Cause(
            code="tls-host-name",
            means=_NOTHING,
            mend="name the host in bootstrap.servers of {alias} as its certificate does, or have "
            "the name added to the certificate",
        ),
    ),
    (
        _Layer.TLS,
        "issuer",
        _Cause(
            code="tls-untrusted",
            means=_NOTHING,
            mend="put the certificate of who signed the brokers' into ssl.truststore.* of {alias}",
        ),
    ),
    (
        _Layer.TLS,
        "self-signed",
        _Cause(
            code="tls-untrusted",
            means=_NOTHING,
            mend="put the certificate of who signed the brokers' into ssl.truststore.* of {alias}",
        ),
    ),
    (_Layer.TLS, "refused by the broker", _OWN_CERTIFICATE),
    (
        _Layer.AUTH,
        "does not offer",
        _Cause(
            code="auth-mechanism",
            means=_NOTHING,
            mend="set sasl.mechanism of {alias} to one that the brokers offer",
        ),
    ),
)


def _cause(layer: _Layer, text: str) -> _Cause:
    for of, words, cause in _BY_TEXT:
        if of is layer and words in text:
            return cause
    return _BY_LAYER[layer]
