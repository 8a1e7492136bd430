"""Who comes in as whom, out of a file."""

from __future__ import annotations

import pathlib

from mm2.config import config_loader, flow_connector_configs
from mm2.preflight import client_authentication

BASE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
b->a.enabled=true
"""


def of(*lines: str) -> list[tuple[str, tuple[str, ...]]]:
    settings = config_loader.parse_mm2_properties(
        BASE + "\n".join(lines), file="mm2", folder=pathlib.Path("/"), environment={}
    )
    plans = {
        each.name: each
        for each in flow_connector_configs.plan_flows(
            settings, flow_connector_configs.ALL_FLOWS, environment={}
        )
    }
    found = client_authentication.list_logins(
        {
            flow.name: (
                flow,
                client_authentication.build_cluster_access_by_client(
                    settings, flow, plans[flow.name]
                ),
            )
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
