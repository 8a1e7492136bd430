"""Whatever keeps a flow from starting is logged within seconds, is its reason wherever flows are
shown, and goes away when it does."""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes
from mm2.sandbox import port_reservation
from tests.support import client_certificates, eventually, kafka, mirror
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

FLOW = "east->west"
KNOWN_S = 5.0
"""From the start of the process's log to the line that names the cause."""
REFUSED = r"{side} unreachable since \S+Z: connection refused \({address}\), retrying"


def logged_at(log: str, pattern: str) -> float:
    """Seconds from the first line of the log to the first that matches."""
    lines = log.splitlines()
    found = next(each for each in lines if re.search(pattern, each))
    first, then = (datetime.datetime.fromisoformat(each.split()[0]) for each in (lines[0], found))
    return (then - first).total_seconds()


def test_each_cause_is_logged_at_once_and_named_at_the_end(tmp_path, east, own_cluster):
    west = own_cluster("west")
    reserved, other = port_reservation.reserve_port(), port_reservation.reserve_port()
    closed, also = f"127.0.0.1:{reserved.port}", f"127.0.0.1:{other.port}"
    given = mirror.settings(east.client_properties(), west.client_properties(), topics="none")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"127.0.0.1:{listener.getsockname()[1]}"
        for alias, address in {
            "north": closed,
            "south": also,
            "mute": silent,
            "nowhere": "no-such-host.invalid:9092",
        }.items():
            given["clusters"][alias] = {"bootstrap.servers": address}
        given["flows"] = [
            {"from": "north", "to": "west", "replication.factor": 1},
            {"from": "east", "to": "south", "replication.factor": 1},
            {"from": "north", "to": "south", "replication.factor": 1},
            {"from": "mute", "to": "west", "replication.factor": 1},
            {"from": "nowhere", "to": "west", "replication.factor": 1},
            {"from": "east", "to": "west", "replication.factor": 3},
        ]
        given["spark"] = {"engine": "inline"}
        file = tmp_path / "clusters.yaml"
        file.write_text(json.dumps(given, indent=1))
        options = ("--until-caught-up", "--timeout", "8", "--metrics-port", "0")
        done = mirror.mm2("run", file, *options)
    assert done.returncode == 1, done.stderr
    told = {
        "north->west": REFUSED.format(side="source north", address=closed),
        "east->south": REFUSED.format(side="target south", address=also),
        "north->south": "source north unreachable .* refused .*; target south unreachable",
        "mute->west": rf"source mute unreachable .*: no response within 4 s \({silent}\), retrying",
        "nowhere->west": "source nowhere unreachable .*: the host name cannot be resolved: .*",
        "east->west": r"creating topic mm2-\S+ on west \(.*replication factor of 3 .*"
        "set replication.factor to at most the number of brokers; retrying",
    }
    for flow, cause in told.items():
        assert re.search(f"  {flow}: PLANNING: {cause}", done.stdout), (flow, done.stdout)
        if flow == "north->south":
            continue
        warned = f" WARNING .*{cause.removeprefix('source ').removeprefix('target ')}"
        assert logged_at(done.stderr, warned) < KNOWN_S, done.stderr
    assert "diagnose with: mm2 check" in done.stdout
    assert len(re.findall(r"WARNING \S+: north unreachable since", done.stderr)) == 1


@pytest.fixture
def expired(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Client properties of a listener whose certificate has expired."""
    with client_certificates.expired_listener(tmp_path) as properties:
        yield properties


def test_an_expired_certificate_is_named_as_what_it_is(tmp_path, east, own_cluster, expired):
    west = own_cluster("west")
    given = mirror.settings(
        expired, west.client_properties(), topics="none", spark={"engine": "inline"}
    )
    given["clusters"]["south"] = expired
    given["clusters"]["north"] = east.client_properties()
    given["flows"].append({"from": "north", "to": "south", "replication.factor": 1})
    file = tmp_path / "clusters.yaml"
    file.write_text(json.dumps(given, indent=1))
    done = mirror.mm2("run", file, "--metrics-port", "0")
    assert done.returncode == exit_codes.FAILED, done.stderr
    cause = "unreachable since .*: TLS: the broker's certificate .*: certificate has expired"
    for flow, cluster in {"east->west": "source east", "north->south": "target south"}.items():
        assert re.search(f"^mm2: {flow}: {cluster} {cause}", done.stderr, re.MULTILINE), done.stderr
    assert logged_at(done.stderr, rf" WARNING \S+: east {cause}") < KNOWN_S


@pytest.mark.full
def test_while_a_cluster_is_away_that_is_shown_everywhere_and_gone_when_it_answers(
    tmp_path, own_cluster
):
    away, west = own_cluster("east"), own_cluster("west")
    properties = away.client_properties()
    kafka.create_topic(properties, "orders", partitions=1)
    away.stop()
    given = mirror.settings(
        properties, west.client_properties(), topics="orders", spark={"engine": "inline"}
    )
    cause = f"connection refused ({away.bootstrap}), retrying; diagnose with: mm2 check"
    with Mirror(tmp_path, given) as running:
        running.await_log(rf"WARNING \S+: east unreachable since \S+Z: {re.escape(cause)}")

        def status() -> dict[str, Any]:
            told = mirror.mm2("status", running.settings_path, "--json")
            (flow,) = json.loads(told.stdout)["flows"]
            return {**flow, "code": told.returncode}

        flow = status()
        assert flow["state"] == "PLANNING"
        assert re.fullmatch(
            rf"source east unreachable since \S+Z: {re.escape(cause)}", flow["reason"]
        )
        assert flow["reasons"] == [flow["reason"]], "it is said once"
        assert flow["code"] != 0
        assert cause in ready(running)
        away.start()
        running.await_log(r"INFO \S+: east responds again")
        eventually.eventually(lambda: status()["state"] == "RUNNING", 60.0)
        assert "refused" not in status()["reason"]
        eventually.eventually(lambda: '"status": "ok"' in ready(running), 60.0)


def ready(running: Mirror) -> str:
    """What /health/ready answers."""
    url = f"http://{running.metrics_address}/health/ready"
    try:
        with urllib.request.urlopen(url, timeout=10.0) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_commands_that_ask_a_closed_port_say_so_and_give_up_soon(tmp_path, west):
    closed = f"127.0.0.1:{port_reservation.reserve_port().port}"
    given = mirror.settings({"bootstrap.servers": closed}, west.client_properties())
    file = tmp_path / "clusters.yaml"
    file.write_text(json.dumps(given, indent=1))
    cause = rf"east: connection refused \({closed}\)"
    done = mirror.mm2("probe", file)
    assert done.returncode == exit_codes.UNREACHABLE, done.stderr
    assert re.search(rf"^{cause}; waiting up to \d s$", done.stderr, re.MULTILINE), done.stderr
    assert re.search(rf"^mm2: {cause}; diagnose with: mm2 check$", done.stderr, re.MULTILINE)
    assert "libraries" not in done.stderr, "no file is left behind"
    for command in ("lag", "status"):
        done = mirror.mm2(command, file, "--clusters")
        assert done.returncode != exit_codes.DONE
        assert re.search(rf"^{cause}; waiting up to \d s$", done.stderr, re.MULTILINE), done.stderr
        assert f"source east unreachable: connection refused ({closed})" in done.stdout


def test_a_node_whose_tasks_another_has_says_so_and_that_it_cannot_know(
    tmp_path, east, west, topic
):
    name = kafka.create_topic(east.client_properties(), topic("orders"), partitions=2)
    given = mirror.settings(
        east.client_properties(),
        west.client_properties(),
        topics=name,
        spark={"engine": "inline"},
        tasks_max=1,
    )
    with Mirror(tmp_path, given) as first:
        first.await_log("east->west is RUNNING")
        file = tmp_path / "second.yaml"
        file.write_text(json.dumps(given, indent=1))
        options = ("--until-caught-up", "--timeout", "60", "--metrics-port", "0")
        done = mirror.mm2("run", file, *options)
        assert done.returncode == exit_codes.UNKNOWN, (done.stdout, done.stderr)
        told = r"  east->west: all 2 partitions are assigned to node \S+:\d+; nothing to replicate"
        assert re.search(told, done.stdout), done.stdout
        assert "no topic" not in done.stdout + done.stderr


def test_what_operators_do_is_logged_with_who_did_it_and_a_stop_can_be_resumed(
    tmp_path, east, west, topic
):
    name = kafka.create_topic(east.client_properties(), topic("orders"), partitions=1)
    given = mirror.settings(
        east.client_properties(), west.client_properties(), topics=name, spark={"engine": "inline"}
    )
    since_ms = SystemClock().wall_ms()
    with Mirror(tmp_path, given) as running:
        running.await_log("east->west is RUNNING")
        config = ("--config", running.settings_path)

        def recorded() -> dict[str, str]:
            """By their ids and topics, what was done since then."""
            done = mirror.mm2("incidents", *config, "--kind", "operator-action", "--json")
            return {
                " ".join(filter(None, (each["id"], each["topic"]))): each["detail"]
                for each in json.loads(done.stdout)["incidents"]
                if each["at_ms"] >= since_ms
            }

        who = rf"operator \S+ \(uid {os.geteuid()}, pid \d+\)"
        logged_by: dict[str, str] = {}
        for arguments, logged in {
            ("throttle", FLOW, "1MB"): f"throttle {FLOW}: 1MB",
            ("pause", FLOW, "--topic", name): f"pause topic {name} of {FLOW}",
            ("pause", FLOW): f"pause {FLOW}",
            ("resume", FLOW): f"resume {FLOW}",
            ("restart", FLOW): f"restart {FLOW}",
            ("reload",): "reload",
        }.items():
            done = mirror.mm2(*arguments, *config)
            assert done.returncode == exit_codes.DONE, done.stderr
            running.await_log(rf"INFO \S+: {who}: {re.escape(logged)}\n")
            logged_by[logged] = re.findall(rf"({who}): {re.escape(logged)}\n", running.log)[-1]
        expected = {
            f"operator-action-{action}": f"{logged_by[words]}: {words}"
            for action, words in {
                "throttle": f"throttle {FLOW}: 1MB",
                f"pause {name}": f"pause topic {name} of {FLOW}",
                "pause": f"pause {FLOW}",
                "resume": f"resume {FLOW}",
                "restart": f"restart {FLOW}",
                "reload": "reload",
            }.items()
        }
        eventually.eventually(
            lambda: expected.items() <= recorded().items(), 30.0, lambda: f"{recorded()}"
        )
        assert mirror.mm2("incidents", *config, "--topic", name, "--exit-code").returncode == 0
        assert "east->west is PAUSED" in running.log
        assert running.log.count("has no authorizer") == 1
        running.stop_connector("MirrorSourceConnector")
        running.await_log(rf"{FLOW} is STOPPED: stopped by failover or REST at \S+Z; resume with: ")
        told = json.loads(mirror.mm2("status", *config, "--json").stdout)["flows"][0]
        assert told["state"] == "STOPPED"
        way_on = f"mm2 resume '{FLOW}' --config {running.settings_path}"
        assert told["reason"].endswith(f"; resume with: {way_on}")
        eventually.eventually(
            lambda: "operator-action-stop" in recorded(), 30.0, lambda: f"{recorded()}"
        )
        why = mirror.mm2("why", name, *config)
        assert re.search(rf"{FLOW}: \S+Z operator .+: stop {FLOW}\n", why.stdout), why
        assert running.running, "a flow that can be resumed does not end the process"
        assert mirror.mm2("resume", FLOW, *config).returncode == exit_codes.DONE
        eventually.eventually(
            lambda: running.log.rindex("is RUNNING") > running.log.rindex("is STOPPED"), 60.0
        )
