from __future__ import annotations

import json
import pathlib
import threading

from connect_runtime.rest.http_pages import PageRequest
from mm2.config import config_loader
from mm2.ui.status_page import StatusPage
from tests.support import eventually, seen_flows, statuses

FILE = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west}
"""


class Running:
    is_engine_ready = True
    crash_reason = ""
    settings = config_loader.parse_clusters_yaml(
        FILE, file="c.yaml", folder=pathlib.Path("/"), environment={}
    )

    def readiness(self):
        return []

    def statuses(self):
        return [statuses.flow(statuses.partition())]

    def build_reports(self):
        return [seen_flows.report(seen_flows.part())]


def test_while_it_is_entered_the_pages_are_served_and_the_past_is_noted():
    running = Running()
    page = StatusPage(running, running)
    with page.record_chart_points():
        threads = [each.name for each in threading.enumerate()]
        assert "status page" in threads

        def told():
            asked = PageRequest(path="/ui/api/flow", query={"flow": "east->west"})
            return json.loads(page.pages["/ui/api/flow"](asked).body)

        eventually.eventually(lambda: told()["timeline"]["at_ms"])
        assert told()["node"]["engine_ready"]
    assert "status page" not in [each.name for each in threading.enumerate()]
