"""The keys of one flow of `mm2.properties`: which of them reach a client or the flow itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from connect_runtime.adapters.config import properties_source
from connect_runtime.app.settings import problems
from mm2.app.settings import flow_clients
from mm2.app.settings import flow_options as options
from mm2.app.settings import mirror_maker_keys as keys
from mm2.core.copy import record_transforms

Problem = problems.Problem
Property = properties_source.Property
Pairs = dict[str, Property]

_HEARTBEATS = "emit.heartbeats.enabled"
_CONSUMER, _PRODUCER, _ADMIN = "consumer.", "producer.", "admin."
_SOURCE_CLUSTER, _TARGET_CLUSTER = "source.cluster.", "target.cluster."
_ROLES = (_CONSUMER, _ADMIN)
_BARE_MAX = 24
_FOR_SYNCS = ("source.producer.", "target.producer.", "target.consumer.")
"""Of clients that the connectors have, and copies have not."""


@dataclass(slots=True)
class Account:
    """What is wrong with the file, and what has no effect in it."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def refuse(self, pair: Property, text: str, *, allowed: str | None = None) -> None:
        self.problems.append(Problem(line=pair.line, key=pair.key, text=text, allowed=allowed))

    def warn(self, pair: Property, text: str) -> None:
        found = Problem(line=pair.line, key=pair.key, text=text)
        if found not in self.warnings:  # of one at the top, once for every flow
            self.warnings.append(found)

    def warn_unknown(self, pair: Property, name: str, *, known: Iterable[str]) -> None:
        text, nearest = "has no effect: is not a known key", problems.nearest(name, known)
        # No key is so long without a dot: a line of a PEM text, say, whose backslash was forgotten.
        key = pair.key if "." in pair.key or len(pair.key) <= _BARE_MAX else problems.HIDDEN
        self.warnings.append(Problem(line=pair.line, key=key, text=text, nearest=nearest))

    def takes_client(self, pair: Property, name: str, *, prefix: str) -> bool:
        """Is this property of one kind of client to be read? If not, that is told."""
        if (name == keys.RESET and prefix.endswith(_CONSUMER)) or keys.is_as_here(name, pair.value):
            return False
        if keys.is_taken(name):
            return True
        why = keys.why_not(name)
        if why:
            self.warn(pair, why)
        else:
            self.warn_unknown(pair, name, known=keys.CLIENT_KNOWN)
        return False

    def takes_key(self, pair: Property, name: str) -> bool:
        """Is this key of a connector to be read? If not, that is told where it matters."""
        value = pair.value.strip()
        if name in keys.SAME_AS_HERE and value in keys.SAME_AS_HERE[name]:
            return False
        if name in keys.NOTED:
            self.warn(pair, keys.NOTED[name])
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A cluster of a flow: `plain` is what holds for all its clients, `own` what its keys say."""

    alias: str
    plain: Pairs
    own: Pairs

    def says(self, role: str, name: str) -> bool:
        return role + name in self.own or name in self.plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """`own` are the keys behind `A->B.`, `top` those without a prefix."""

    source: End
    target: End
    own: Pairs
    top: Pairs


def translate(flow: Flow, account: Account) -> Pairs:
    """The flow's keys as `flow_reader` knows them; what has no effect is told."""
    found: Pairs = {options.ENABLED.name: _enabled(flow)}
    weak: Pairs = {}
    clusters_first = (_SOURCE_CLUSTER, _TARGET_CLUSTER)  # of equal reach, they are the weakest
    ordered = sorted(flow.own.items(), key=lambda item: not item[0].startswith(clusters_first))
    for name, pair in ordered:
        if name == options.ENABLED.name:
            continue
        if name in keys.FLOW:
            if account.takes_key(pair, name):
                found[name] = pair
        elif not _take_client(flow, name, account, found=found, weak=weak):
            of_records = name.startswith(record_transforms.FAMILIES)
            if of_records or (_has_custom_classes(flow) and not _is_refused(name)):
                found[name] = pair
            else:
                _tell(name, pair, account)
    found = {**weak, **found}
    start = _start(flow, account)
    if start is not None and options.START.name not in flow.own:
        found[options.START.name] = start
    return found


def _has_custom_classes(flow: Flow) -> bool:
    """Such have keys of their own, and nothing is unknown beside them."""
    given = {**flow.top, **flow.own}
    values = (given[each.name].value for each in options.CLASSES if each.name in given)
    return any(map(options.is_custom, values))


def _enabled(flow: Flow) -> Property:
    """`MirrorMakerConfig.clusterPairs`: a flow without a herder does not run, whatever is said.

    One at the top is inherited by flows whose herder is there for its heartbeats.
    """
    own, top = flow.own.get(options.ENABLED.name), flow.top.get(options.ENABLED.name)
    if own is not None:
        return own
    heartbeats = flow.own.get(_HEARTBEATS) or flow.top.get(_HEARTBEATS)
    if top is not None and (heartbeats is None or heartbeats.value.lower() == "true"):
        return top
    line = min((pair.line for pair in flow.own.values()), default=0)
    return Property(key=f"{flow.source.alias}->{flow.target.alias}", value="false", line=line)


def _take_client(flow: Flow, name: str, account: Account, *, found: Pairs, weak: Pairs) -> bool:
    """A client's property goes to `found`, or to `weak` where a cluster's own may beat it."""
    pair = flow.own[name]
    for prefix in flow_clients.PREFIXES:
        if name.startswith(prefix):
            bare = name.removeprefix(prefix)
            if account.takes_client(pair, bare, prefix=prefix):
                found[name] = pair
            return True
    for prefix, places in _weak_places(flow).items():
        if name.startswith(prefix):
            bare = name.removeprefix(prefix)
            if bare in keys.CLIENT or (
                prefix in _ROLES and account.takes_client(pair, bare, prefix=prefix)
            ):
                _take_weak(pair, bare, places=places, account=account, weak=weak)
            elif prefix not in _ROLES:
                account.warn(pair, "has no effect, as in MirrorMaker 2: write it at the cluster")
            return True
    return False


_Place = tuple[str, End, str]


def _weak_places(flow: Flow) -> dict[str, tuple[_Place, ...]]:
    """For each prefix, which clients it reaches: (our prefix, cluster, the cluster's role)."""
    reading = (flow_clients.CONSUMER, flow.source, _CONSUMER)
    source_admin = (flow_clients.SOURCE_ADMIN, flow.source, _ADMIN)
    target_admin = (flow_clients.TARGET_ADMIN, flow.target, _ADMIN)
    return {
        _CONSUMER: (reading,),
        _ADMIN: (source_admin, target_admin),
        _SOURCE_CLUSTER: (reading, source_admin),
        _TARGET_CLUSTER: (target_admin,),
    }


def _take_weak(
    pair: Property, name: str, *, places: tuple[_Place, ...], account: Account, weak: Pairs
) -> None:
    free = [prefix for prefix, end, role in places if not end.says(role, name)]
    weak.update({prefix + name: pair for prefix in free})
    if not free:
        prefix, end, _ = places[0]
        account.warn(
            pair,
            f"has no effect, as in MirrorMaker 2: what cluster {end.alias} says of {name} is "
            f"stronger; write A->B.{prefix}{name}",
        )


def _start(flow: Flow, account: Account) -> Property | None:
    """`auto.offset.reset` of the reading client, as our `start`."""
    candidates = (
        flow.own.get(flow_clients.CONSUMER + keys.RESET),
        flow.source.own.get(_CONSUMER + keys.RESET),
        flow.own.get(_CONSUMER + keys.RESET),
    )
    found = next((pair for pair in candidates if pair is not None), None)
    if found is None:
        return None
    if found.value.strip() not in ("earliest", "latest"):
        account.refuse(found, "is not allowed", allowed="earliest or latest")
        return None
    return found


def _is_refused(name: str) -> bool:
    families = (_PRODUCER, *_FOR_SYNCS, *options.REFUSED_FAMILIES)
    return name in options.REFUSED or name.startswith(families)


def _tell(name: str, pair: Property, account: Account) -> None:
    if name.startswith(_PRODUCER):
        text = "has no effect on the copies, as in MirrorMaker 2: write A->B.producer.override."
        account.warn(pair, text)
    elif name.startswith(_FOR_SYNCS):
        prefix = next(each for each in _FOR_SYNCS if name.startswith(each))
        account.takes_client(pair, name.removeprefix(prefix), prefix=prefix)
    elif _is_refused(name):
        account.warn(pair, "has no effect: mm2 does not know this of Connect")
    else:
        account.warn_unknown(pair, name, known=keys.FLOW)
