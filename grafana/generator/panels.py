"""Builders for the kinds of panels used here, with their common settings.

Every panel has a description (`about`) and a text for missing data (`unknown`). Missing data is
orange, never green: Grafana colours an absent value like the lowest threshold, so each panel maps
it to its own text and colour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

GOOD, WARN, BAD, NEUTRAL, UNKNOWN, QUIET = "green", "orange", "red", "blue", "orange", "#7b8087"
NO_DATA = "no data"
HALF, THIRD, QUARTER, FIFTH, WHOLE = 12, 8, 6, 5, 24
Builder = stat.Panel | timeseries.Panel | table.Panel
_LEAST_TOPS = {"percentunit": 0.02, "Bps": 1000}
"""Minimum upper end of the axis by unit, so that a line of zeros gets a scale."""
_WIDTHS = {
    "flow": 90,
    "connector": 210,
    "status": 90,
    "instance": 150,
    "version": 90,
    "reason": 290,
}
"""Column widths in pixels; other columns share the rest."""
_Panel = TypeVar("_Panel", stat.Panel, timeseries.Panel, table.Panel)
_SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """`legend` is Grafana's `{{label}}`. A limit is drawn as a dashed line."""

    expr: str
    legend: str = "{{flow}}"
    limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Title, description and links of a panel."""

    title: str
    about: str
    """What the panel shows, what is normal, what to do."""
    unknown: str = NO_DATA
    """Text for missing data."""
    color: str = UNKNOWN
    """Colour of missing data; QUIET only if missing data is harmless."""
    runbooks: Sequence[str] = ()
    """Alerts whose runbooks are linked."""


Steps = Sequence[tuple[float | None, str]]
"""Thresholds: (value from which the colour applies, colour); the first value is None."""


def limit(of: str) -> Query:
    """Query for a threshold of recording.yml, which alerts compare with."""
    return Query(expr=f'mm2:limit:seconds{{of="{of}"}}', legend="limit", limit=True)


def number(
    text: Text,
    query: Query,
    *,
    unit: str,
    steps: Steps,
    words: Mapping[str, tuple[str, str]] | None = None,
    span: int = QUARTER,
) -> stat.Panel:
    """Panel with the current value of each series; `words` maps values to a text and colour."""
    panel = stat.Panel().with_target(_target(query, "A", instant=True))
    panel.unit(unit).thresholds(_thresholds(steps)).color_scheme(_by_threshold())
    panel.mappings(_mappings(text, words or {}))
    panel.graph_mode(common.BigValueGraphMode.NONE)
    panel.color_mode(common.BigValueColorMode.BACKGROUND)
    panel.justify_mode(common.BigValueJustifyMode.CENTER)
    panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME)
    panel.text(common_builders.VizTextDisplayOptions().title_size(14).value_size(24))
    panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    return _finish(panel, text, span=span, height=5)


def graph(
    text: Text,
    *queries: Query,
    unit: str,
    span: int = HALF,
    stacked: bool = False,
    whole: bool = False,
    most: float | None = None,
) -> timeseries.Panel:
    """Graph over time from 0; a limit is a red dashed line. `whole`: values are integers."""
    panel = timeseries.Panel()
    for place, query in enumerate(queries):
        panel.with_target(_target(query, chr(ord("A") + place), instant=False))
    panel.unit(unit).mappings(_mappings(text, {}))
    panel.axis_soft_max(_LEAST_TOPS.get(unit, 1))
    panel.line_width(2).fill_opacity(30 if stacked else 8).show_points(common.VisibilityMode.AUTO)
    panel.span_nulls(False)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    panel.min(0)
    if whole:
        panel.decimals(0)
    if most is not None:
        panel.max(most)
    legend = common_builders.VizLegendOptions()
    legend.display_mode(common.LegendDisplayMode.LIST).placement(common.LegendPlacement.BOTTOM)
    panel.legend(legend.show_legend(True))
    panel.tooltip(
        common_builders.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )
    if any(query.limit for query in queries):
        panel.override_by_name("limit", _dashed())
    return _finish(panel, text, span=span, height=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A query of a table and the column of its values."""

    expr: str
    name: str = ""
    """Heading; without one the values are hidden."""
    unit: str = "short"
    steps: Steps = ()
    words: Mapping[str, tuple[str, str]] | None = None
    unknown: str = ""
    """Text for a missing value, if that is harmless."""


def rows(
    text: Text,
    *columns: Column,
    labels: Sequence[str],
    span: int = HALF,
    by: str = "",
    least_first: bool = False,
) -> table.Panel:
    """Table with a row per combination of `labels` and a column per query, sorted by `by`."""
    panel = table.Panel()
    for place, column in enumerate(columns):
        query = Query(expr=column.expr, legend="")
        panel.with_target(_target(query, chr(ord("A") + place), instant=True, as_table=True))
    panel.unit("short").mappings(_mappings(text, {})).min_width(60)
    panel.with_transformation(_transformer("merge", {}))
    values = {
        (f"Value #{chr(ord('A') + place)}" if len(columns) > 1 else "Value"): column.name
        for place, column in enumerate(columns)
    }
    order = [*labels, *(value for value in values if values[value])]
    organize = {
        "excludeByName": {"Time": True, **{value: True for value in values if not values[value]}},
        "includeByName": dict.fromkeys(order, True),
        "indexByName": {name: place for place, name in enumerate(order)},
        "renameByName": {value: name for value, name in values.items() if name},
    }
    panel.with_transformation(_transformer("organize", organize))
    for label in labels:
        if label in _WIDTHS:
            panel.override_by_name(label, _properties({"custom.width": _WIDTHS[label]}))
    for column in columns:
        panel.override_by_name(column.name, _cells(column, text))
    if by:
        panel.sort_by(
            [common_builders.TableSortByFieldState().display_name(by).desc(not least_first)]
        )
    return _finish(panel, text, span=span, height=8)


def _finish(panel: _Panel, text: Text, *, span: int, height: int) -> _Panel:
    panel.title(text.title).description(text.about).no_value(text.unknown).datasource(_SOURCE)
    panel.links([_runbook(name) for name in text.runbooks])
    return panel.span(span).height(height)


def _target(
    query: Query, ref: str, *, instant: bool, as_table: bool = False
) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(query.expr).ref_id(ref).datasource(_SOURCE)
    made.legend_format(query.legend)
    if as_table:
        made.format(PromQueryFormat.TABLE)
    return made.instant() if instant else made.range()


def _runbook(name: str) -> builders.DashboardLink:
    path = f"deploy/runbooks/{name}.md"
    link = builders.DashboardLink(f"What to do: {path}").type(dashboard.DashboardLinkType.LINK)
    return link.url(f"${{runbooks}}/{name}.md").target_blank(True)


def _mappings(text: Text, words: Mapping[str, tuple[str, str]]) -> list[dashboard.ValueMapping]:
    absent = dashboard.SpecialValueMap(
        options=dashboard.DashboardSpecialValueMapOptions(
            match=dashboard.SpecialValueMatch.NULL_AND_NAN,
            result=dashboard.ValueMappingResult(text=text.unknown, color=text.color, index=0),
        )
    )
    known = {
        value: dashboard.ValueMappingResult(text=said, color=color, index=place)
        for place, (value, (said, color)) in enumerate(words.items(), start=1)
    }
    return [absent, dashboard.ValueMap(options=known)] if known else [absent]


def _thresholds(steps: Steps) -> builders.ThresholdsConfig:
    found = [dashboard.Threshold(value=value, color=color) for value, color in steps]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(found)


def _by_threshold() -> builders.FieldColor:
    return builders.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS)


def _dashed() -> list[dashboard.DynamicConfigValue]:
    return _properties(
        {
            "color": {"mode": "fixed", "fixedColor": BAD},
            "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
            "custom.lineWidth": 1,
            "custom.fillOpacity": 0,
            "custom.stacking": {"mode": "none", "group": "limit"},
        }
    )


def _cells(column: Column, text: Text) -> list[dashboard.DynamicConfigValue]:
    found: dict[str, object] = {"unit": column.unit, "custom.width": _wide(column)}
    if column.unknown:
        text = dataclasses.replace(text, unknown=column.unknown, color=QUIET)
    if column.words or column.unknown:
        found["mappings"] = _mappings(text, column.words or {})
    if column.steps:
        steps = [{"value": value, "color": color} for value, color in column.steps]
        found["thresholds"] = {"mode": "absolute", "steps": steps}
        found["custom.cellOptions"] = {"type": "color-background", "mode": "basic"}
    return _properties(found)


def _wide(column: Column) -> int:
    """Width in pixels for the longest content: a sentence, a word, or a number."""
    return 220 if column.unknown else 70 if column.words else 90


def _properties(found: Mapping[str, object]) -> list[dashboard.DynamicConfigValue]:
    return [dashboard.DynamicConfigValue(id_val=key, value=value) for key, value in found.items()]


def _transformer(
    name: Literal["merge", "organize"], options: Mapping[str, object]
) -> dashboard.DataTransformerConfig:
    return dashboard.DataTransformerConfig(id_val=name, options=dict(options))
