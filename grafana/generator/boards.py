"""Renders all dashboards as Grafana JSON.

Rows are in the order in which an on-call engineer asks: how bad is it, since when, where, why.
"""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from grafana.generator import flow, groups, overview, spark, workers
from grafana.generator.board import Board, Row
from grafana.generator.panels import Builder as Panel

FOLDER = Path(__file__).parents[1] / "dashboards"
ALL: tuple[Board, ...] = (overview.BOARD, flow.BOARD, groups.BOARD, workers.BOARD, spark.BOARD)
TAG = "mm2"
_SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH = 24
_ALL_VALUES = dashboard.VariableOption(selected=True, text="All", value="$__all")


def write(folder: Path) -> None:
    """Write each dashboard to `<uid>.json` in `folder`, and delete other JSON files there."""
    folder.mkdir(exist_ok=True)
    texts = {f"{board.uid}.json": json_of(board) for board in ALL}
    for old in folder.glob("*.json"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)


def json_of(board: Board) -> str:
    """Return the dashboard as JSON for import or provisioning."""
    made = builders.Dashboard(board.title).uid(board.uid).description(board.about)
    made.tags([TAG]).readonly().timezone("browser").refresh("30s").time("now-3h", "now")
    made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    made.variables(_variables(topics=board.topics))
    made.annotations([_alerts()])
    made.links([_to_others()])
    _place(made, board)
    return JSONEncoder(sort_keys=True, indent=1).encode(made.build()) + "\n"


def _place(made: builders.Dashboard, board: Board) -> None:
    """Lay out rows below each other, panels from left to right; a line has one height."""
    number, top = 0, 0
    for row in board.rows:
        number += 1
        place = dashboard.GridPos(x=0, y=top, w=_WIDTH, h=1)
        made.with_row(builders.Row(row.title).id(number).grid_pos(place))
        top += 1
        for line in _lines(row):
            height = max(size.h for _, size in line)
            left = 0
            for panel, size in line:
                number += 1
                place = dashboard.GridPos(x=left, y=top, w=size.w, h=height)
                made.with_panel(panel.id(number).grid_pos(place))
                left += size.w
            top += height


def _lines(row: Row) -> list[list[tuple[Panel, dashboard.GridPos]]]:
    """Split the panels of a row into lines that fit the width; returns panels with their sizes."""
    lines: list[list[tuple[Panel, dashboard.GridPos]]] = [[]]
    left = 0
    for panel in row.panels:
        size = panel.build().grid_pos
        assert size is not None, row.title
        if left + size.w > _WIDTH:
            lines.append([])
            left = 0
        lines[-1].append((panel, size))
        left += size.w
    return lines


def _variables(*, topics: bool) -> list[Builder[dashboard.VariableModel]]:
    found: list[Builder[dashboard.VariableModel]] = [
        builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        _values("flow", "label_values(mm2_flow_state, flow)").label("Flow"),
    ]
    if topics:
        query = 'label_values(mm2_replication_lag_records{flow=~"$flow"}, topic)'
        found.append(_values("topic", query).label("Topic"))
    where = builders.TextBoxVariable("runbooks").label("Runbooks URL")
    where.description("Base URL of your copy of deploy/runbooks, used by the links of the panels.")
    return [*found, where.default_value("deploy/runbooks")]


def _values(name: str, query: str) -> builders.QueryVariable:
    made = builders.QueryVariable(name).datasource(_SOURCE)
    made.query({"query": query, "refId": name, "qryType": 1})
    made.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
    made.sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    return made.multi(True).include_all(True).all_value(".*").current(_ALL_VALUES)


def _alerts() -> builders.AnnotationQuery:
    """Marks firing alerts in every graph."""
    made = builders.AnnotationQuery().name("Alerts").datasource(_SOURCE).enable(True)
    return made.icon_color("red").expr('ALERTS{alertname=~"Mm2.*", alertstate="firing"}')


def _to_others() -> builders.DashboardLink:
    link = builders.DashboardLink("mm2").type(dashboard.DashboardLinkType.DASHBOARDS)
    return link.tags([TAG]).as_dropdown(False).include_vars(True).keep_time(True)
