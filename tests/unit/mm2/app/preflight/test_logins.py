"""Who comes in as whom, out of a file."""

from __future__ import annotations

import pathlib

from mm2.app import flow_plan
from mm2.app.preflight import flow_rights, logins
from mm2.app.settings import load

BASE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
b->a.enabled=true
"""


def of(*lines: str) -> list[tuple[str, tuple[str, ...]]]:
    settings = load.parse_properties(
        BASE + "\n".join(lines), file="mm2", folder=pathlib.Path("/"), environment={}
    )
    plans = {
        each.name: each for each in flow_plan.plans(settings, flow_plan.EVERYTHING, environment={})
    }
    found = logins.of(
        {
            flow.name: (flow, flow_rights.accesses(settings, flow, plans[flow.name]))
            for flow in settings.flows
        }
    )
    return [(each.alias, each.clients) for each in found]


def test_a_cluster_that_all_reach_alike_is_tried_once():
    assert of() == [("a", ()), ("b", ())]


def test_who_comes_otherwise_is_tried_by_itself():
    own = ("a->b.source.consumer.security.protocol=SSL", "b->a.enabled=false")
    assert of(*own) == [
        ("a", ("source admin of a->b",)),
        ("a", ("consumer of a->b",)),
        ("b", ()),
    ]
