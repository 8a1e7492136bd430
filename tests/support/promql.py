"""What an expression of Prometheus asks for: series, labels, values. Nothing is evaluated.

`Catalogue.judge` says what of it no exporter can answer: a series that nobody emits, a label that
it does not have, a value that the label never takes, a grouping by what is not there. That
Prometheus itself would answer all of these with silence is why somebody has to look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import promql_parser as promql

from connect_runtime.base.metrics import Metric

Labels = frozenset[str]
SCRAPED: Labels = frozenset({"instance", "job"})
"""What Prometheus itself adds to every series."""
_METADATA = {"up": SCRAPED, "ALERTS": frozenset({"alertname", "alertstate", "severity"})}
_HISTOGRAM = {"_bucket": frozenset({"le"}), "_sum": frozenset[str](), "_count": frozenset[str]()}
_SET_OPERATORS = ("and", "unless")
_WINDOWS = {"$__rate_interval": "1m", "$__interval": "15s", "$__range": "1h"}
_VARIABLE = re.compile(r"\$\{?(\w+)(?::\w+)?\}?")


@dataclass(slots=True)
class Catalogue:
    """Every series there is: its labels, and of some labels every value."""

    labels: dict[str, Labels] = field(default_factory=dict)
    values: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def declare(self, metric: Metric, *, buckets: Iterable[str] = ()) -> None:
        """As it stands on /metrics. With `buckets`, values of `le`, it is a histogram."""
        own = frozenset(metric.labels) | SCRAPED
        les = frozenset(buckets)
        if not les:
            self.labels[metric.name] = own
            return
        for suffix, more in _HISTOGRAM.items():
            self.labels[metric.name + suffix] = own | more
        self.values[f"{metric.name}_bucket", "le"] = les

    def take(self, name: str, label: str, values: Iterable[str]) -> None:
        """`label` of the series `name` has one of these values, never another."""
        self.values[name, label] = frozenset(values)

    def record(self, name: str, expression: str, static: Mapping[str, str]) -> None:
        """A recording rule; `static` are the labels that it sets."""
        found = self.labels_of(expression) | frozenset(static)
        self.labels[name] = self.labels.get(name, frozenset()) | found
        for label, value in static.items():
            before = self.values.get((name, label), frozenset())
            self.values[name, label] = before | {value}

    def judge(self, expression: str) -> list[str]:
        """What is wrong with it, in words; nothing when all of it can be answered."""
        said: list[str] = []
        try:
            parsed = promql.parse(filled(expression))
        except ValueError as error:
            return [f"is no PromQL: {error}"]
        _Judge(self, said.append).labels(parsed)
        return said

    def labels_of(self, expression: str) -> Labels:
        """Labels that what it answers may have; the name of the series is none."""
        return _Judge(self, lambda _: None).labels(promql.parse(filled(expression)))


def filled(expression: str) -> str:
    """Grafana's variables replaced by what Prometheus can read: `.*` where a value is matched."""
    for name, window in _WINDOWS.items():
        expression = expression.replace(name, window)
    return _VARIABLE.sub(".*", expression)


def series(expression: str) -> frozenset[str]:
    """The names of all that it asks for."""
    found: set[str] = set()

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector) and node.name:
            found.add(node.name)

    promql.walk(promql.parse(filled(expression)), pre_visit=visit)
    return frozenset(found)


def selectors(expression: str) -> list[str]:
    """The same without what is made of it: each series that it asks for, with its labels."""
    found: list[str] = []

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector):
            matchers = ", ".join(_written(each) for each in node.matchers.matchers)
            found.append(f"{node.name or ''}{{{matchers}}}")

    promql.walk(promql.parse(filled(expression)), pre_visit=visit)
    return found


def _written(matcher: promql.Matcher) -> str:
    operators = (
        (promql.MatchOp.Equal, "="),
        (promql.MatchOp.NotEqual, "!="),
        (promql.MatchOp.Re, "=~"),
        (promql.MatchOp.NotRe, "!~"),
    )
    operator = next(sign for kind, sign in operators if kind == matcher.op)
    return f"{matcher.name}{operator}{json.dumps(matcher.value)}"


@dataclass(frozen=True, slots=True)
class _Judge:
    """Labels of an expression from the inside out; what is wrong on the way is said."""

    known: Catalogue
    say: Callable[[str], None]

    def labels(self, node: promql.Expr) -> Labels:
        match node:
            case promql.VectorSelector():
                return self._selector(node)
            case promql.MatrixSelector():
                return self._selector(node.vector_selector)
            case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
                return self.labels(node.expr)
            case promql.AggregateExpr():
                return self._aggregate(node)
            case promql.BinaryExpr():
                return self._binary(node)
            case promql.Call():
                return self._call(node)
            case _:
                return frozenset()

    def _selector(self, node: promql.VectorSelector) -> Labels:
        name = node.name or ""
        found = self.known.labels.get(name, _METADATA.get(name))
        if found is None:
            self.say(f"nothing emits {name or node.prettify()}")
            return frozenset()
        for each in node.matchers.matchers:
            if each.name not in found:
                self.say(f"{name} has no label {each.name}")
            else:
                self._value(name, each)
        return found

    def _value(self, name: str, matcher: promql.Matcher) -> None:
        values = self.known.values.get((name, matcher.name))
        if values is None:
            return
        if matcher.op in (promql.MatchOp.Equal, promql.MatchOp.NotEqual):
            wanted = [re.escape(matcher.value)]
        else:
            wanted = matcher.value.split("|")
        for each in wanted:
            if not any(re.fullmatch(each, value) for value in values):
                self.say(f"{name}: {matcher.name} is never {each}, but {sorted(values)}")

    def _aggregate(self, node: promql.AggregateExpr) -> Labels:
        inner = self.labels(node.expr)
        keeps = str(node).startswith(("topk", "bottomk"))
        if node.modifier is None:
            return inner if keeps else frozenset()
        named = frozenset(node.modifier.labels)
        self._has(inner, named, node)
        if keeps:
            return inner
        by = node.modifier.type == promql.AggModifierType.By
        return named if by else inner - named

    def _binary(self, node: promql.BinaryExpr) -> Labels:
        left, right = self.labels(node.lhs), self.labels(node.rhs)
        if _is_scalar(node.lhs) or _is_scalar(node.rhs):
            return left | right
        on = node.modifier.matching if node.modifier else None
        operator = str(node.op)
        if on is not None and on.type == promql.LabelModifierType.Include:
            self._has(left, frozenset(on.labels), node)
            self._has(right, frozenset(on.labels), node)
        elif on is None and operator != "or" and left - SCRAPED != right - SCRAPED:
            self.say(f"both sides never have the same labels: {node.prettify()}")
        if operator == "or":
            return left | right
        if operator in _SET_OPERATORS:
            return left
        return self._joined(node, left, right)

    def _joined(self, node: promql.BinaryExpr, left: Labels, right: Labels) -> Labels:
        modifier = node.modifier
        if modifier is None or modifier.matching is None:
            return left
        more = frozenset(modifier.group_labels or ())
        named = frozenset(modifier.matching.labels)
        match modifier.card:
            case promql.VectorMatchCardinality.ManyToOne:
                self._has(right, more, node)
                return left | more
            case promql.VectorMatchCardinality.OneToMany:
                self._has(left, more, node)
                return right | more
        return named if modifier.matching.type == promql.LabelModifierType.Include else left - named

    def _call(self, node: promql.Call) -> Labels:
        found = [self.labels(each) for each in node.args]
        name = node.func.name
        if name == "label_replace":
            target, source = (each.val for each in (node.args[1], node.args[3]))
            if source:
                self._has(found[0], frozenset({source}), node)
            return found[0] | {target}
        if name == "histogram_quantile":
            self._has(found[1], frozenset({"le"}), node)
            return found[1] - {"le"}
        if name in ("scalar", "vector", "time", "absent"):
            return frozenset()
        return frozenset[str]().union(*found)

    def _has(self, found: Labels, wanted: Labels, node: promql.Expr) -> None:
        for label in sorted(wanted - found):
            self.say(f"there is no label {label} in {node.prettify()}")


def _is_scalar(node: promql.Expr) -> bool:
    while isinstance(node, promql.ParenExpr | promql.UnaryExpr):
        node = node.expr
    if isinstance(node, promql.BinaryExpr):
        return _is_scalar(node.lhs) and _is_scalar(node.rhs)
    if isinstance(node, promql.Call):
        return node.func.name in ("scalar", "time")
    return isinstance(node, promql.NumberLiteral)
