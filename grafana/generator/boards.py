"""All dashboards: what goes for each of them, and how they become JSON.

Rows are in the order in which somebody who was woken asks: is it bad, since when, where, why.
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
    """A file for each, named as its uid; what else is JSON there goes."""
    folder.mkdir(exist_ok=True)
    texts = {f"{board.uid}.json": json_of(board) for board in ALL}
    for old in folder.glob("*.json"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)


def json_of(board: Board) -> str:
    """What Grafana imports, or is provisioned with."""
    made = builders.Dashboard(board.title).uid(board.uid).description(board.about)
    made.tags([TAG]).readonly().timezone("browser").refresh("30s").time("now-3h", "now")
    made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    made.variables(_variables(topics=board.topics))
    made.annotations([_alerts()])
    made.links([_to_others()])
    _place(made, board)
    return JSONEncoder(sort_keys=True, indent=1).encode(made.build()) + "\n"


def _place(made: builders.Dashboard, board: Board) -> None:
    """Rows below each other; in them panels from left to right, all of a line equally high."""
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
    """The panels of a row with their sizes, as many in a line as fit."""
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
    where = builders.TextBoxVariable("runbooks").label("Runbooks at")
    where.description("Where you keep the pages of deploy/runbooks: links of panels begin with it.")
    return [*found, where.default_value("deploy/runbooks")]


def _values(name: str, query: str) -> builders.QueryVariable:
    made = builders.QueryVariable(name).datasource(_SOURCE)
    made.query({"query": query, "refId": name, "qryType": 1})
    made.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
    made.sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    return made.multi(True).include_all(True).all_value(".*").current(_ALL_VALUES)


def _alerts() -> builders.AnnotationQuery:
    """When which alert fired, over every graph."""
    made = builders.AnnotationQuery().name("Alerts").datasource(_SOURCE).enable(True)
    return made.icon_color("red").expr('ALERTS{alertname=~"Mm2.*", alertstate="firing"}')


def _to_others() -> builders.DashboardLink:
    link = builders.DashboardLink("mm2").type(dashboard.DashboardLinkType.DASHBOARDS)
    return link.tags([TAG]).as_dropdown(False).include_vars(True).keep_time(True)
