"""What every surface of a running flow says in an incident, and the judge that compares them.

One `Expectation` says what is really so. `collect` asks everything an operator, a script, a probe
or Prometheus would ask: `mm2 status`, `lag`, `why`, `failover` (dry run), `/health/*`, the status
page and the metrics. `disagreements` says where one of them differs from the expectation.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mm2 import exit_codes
from tests.support import mirror
from tests.support.mirror import Mirror

FLOW = "east->west"
REPLICATING = "/health/replicating?flow=east-%3Ewest"
COMMAND_S = 100.0
LOOK_S = 20
"""How long a dry run of `mm2 failover` may look at both clusters."""
NO_RECORD: Mapping[str, Any] = {}
_STATUS_CODES = {
    "healthy": exit_codes.DONE,
    "unhealthy": exit_codes.FAILED,
    "suspended": exit_codes.FAILED,
    "pending": exit_codes.FAILED,
    "unknown": exit_codes.UNKNOWN,
}
_BADGES = {
    "healthy": {"good", "wait"},
    "unhealthy": {"bad"},
    "suspended": {"wait", "off"},
    "pending": {"wait"},
    "unknown": {"unknown"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is really so of the flow, and therefore what each surface must say.

    - `health`, `state`: as `mm2 status` spells them. `reason`: a pattern that the reasons of every
      surface match; "" where the flow is healthy.
    - `lag`: records not yet replicated, None where that is unknown; with `lag_is_least` there are
      more. `lag_code`: exit code of `mm2 lag --max-records 0`.
    - `why`: a pattern in what `mm2 why TOPIC` prints; `why_code` its exit code.
    - `failover`: pattern in the dry run's output; `failover_code` its exit code.
    - `ready`: of `/health/ready`. `lost`: the sides, source and target, that do not answer.
      `elsewhere`: other nodes have all partitions, so the page of this one shows the flow as off.
    """

    health: str
    state: str = "RUNNING"
    reason: str = ""
    lag: int | None = 0
    lag_is_least: bool = False
    lag_code: int = exit_codes.DONE
    why: str = ""
    why_code: int = exit_codes.DONE
    failover: str = "GO"
    failover_code: int = exit_codes.DONE
    ready: bool = True
    lost: frozenset[str] = frozenset()
    elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A command's exit code, its output, and the flow in it where it prints JSON."""

    code: int
    text: str
    flow: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surfaces:
    """All surfaces, asked at about the same time. Health pages: status code and document."""

    status: Said
    lag: Said
    why: Said
    failover: Said
    live: tuple[int, Mapping[str, Any]]
    ready: tuple[int, Mapping[str, Any]]
    replicating: tuple[int, Mapping[str, Any]]
    page: Mapping[str, Any]
    metrics: Mapping[str, Any]


def get(address: str, path: str) -> tuple[int, Mapping[str, Any]]:
    """A JSON page of the run; status 0 where nothing answers."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=20.0) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    except OSError as error:
        return 0, {"error": str(error)}


def collect(run: Mirror, topic: str) -> Surfaces:
    """Commands are processes of their own, as operators start them, all at the same time."""
    file = run.settings_path
    commands = {
        "status": ("status", file, "--flow", FLOW, "--json"),
        "lag": ("lag", file, "--flow", FLOW, "--max-records", "0", "--json"),
        "why": ("why", file, topic),
        "failover": (
            *("failover", "--from", "east", "--to", "west"),
            *("--snapshot-timeout", LOOK_S, "--config", file),
        ),
    }
    with futures.ThreadPoolExecutor(len(commands)) as pool:
        asked = {name: pool.submit(_command, *words) for name, words in commands.items()}
        said = {name: each.result() for name, each in asked.items()}
    overview = get(run.metrics_address, "/ui/api/overview")[1]
    return Surfaces(
        **said,
        live=get(run.metrics_address, "/health/live"),
        ready=get(run.metrics_address, "/health/ready"),
        replicating=get(run.metrics_address, REPLICATING),
        page=next((e for e in overview.get("flows", ()) if e["flow"] == FLOW), NO_RECORD),
        metrics=figures(run, topic),
    )


def figures(run: Mirror, topic: str) -> dict[str, Any]:
    """The metrics that an alert on this flow would use; None for series that are absent."""
    found = run.metrics()

    def value(name: str, **labels: str) -> float | None:
        samples = found.get(name, [])
        fits = [number for has, number in samples if labels.items() <= has.items()]
        return fits[0] if fits else None

    return {
        "healthy": value("mm2_flow_healthy", flow=FLOW),
        "source": value("mm2_flow_cluster_reachable", flow=FLOW, side="source"),
        "target": value("mm2_flow_cluster_reachable", flow=FLOW, side="target"),
        "lag": value("mm2_replication_lag_records", flow=FLOW, topic=topic),
    }


def _command(*words: str | int | Path) -> Said:
    done = mirror.mm2(*map(str, words), timeout_s=COMMAND_S)
    flow: Mapping[str, Any] = {}
    if "--json" in words and done.stdout:
        flows = json.loads(done.stdout)["flows"]
        flow = next((each for each in flows if each["flow"] == FLOW), {})
    return Said(code=done.returncode, text=done.stdout + done.stderr, flow=flow)


# The judge


def disagreements(expected: Expectation, seen: Surfaces) -> list[str]:
    """One line for each surface that says something else than what is so; none: all agree."""
    return [*_commands(expected, seen), *_pages(expected, seen), *_metrics(expected, seen)]


def _commands(expected: Expectation, seen: Surfaces) -> Iterator[str]:
    status = seen.status.flow
    yield from _differs("status: exit code", seen.status.code, _STATUS_CODES[expected.health])
    yield from _differs("status: health", status.get("health"), expected.health)
    yield from _differs("status: state", status.get("state"), expected.state)
    yield from _reasons("status", "; ".join(status.get("reasons", ())), expected)
    yield from _differs("lag: exit code", seen.lag.code, expected.lag_code)
    lag = seen.lag.flow
    known = lag.get("lag_records") if lag.get("lag_records_known") else None
    if expected.lag_is_least and known is not None:
        known = min(known, expected.lag or 0)
    yield from _differs("lag: records", known, expected.lag)
    yield from _differs("why: exit code", seen.why.code, expected.why_code)
    yield from _matches("why", seen.why.text, expected.why)
    yield from _differs("failover: exit code", seen.failover.code, expected.failover_code)
    yield from _matches("failover", seen.failover.text, expected.failover)


def _pages(expected: Expectation, seen: Surfaces) -> Iterator[str]:
    healthy = expected.health == "healthy"
    yield from _differs("/health/live", seen.live[0], 200)
    yield from _differs("/health/ready", seen.ready[0], 200 if expected.ready else 503)
    yield from _differs("/health/replicating", seen.replicating[0], 200 if healthy else 503)
    findings = [each for each in seen.replicating[1].get("findings", ()) if not each["ok"]]
    told = "; ".join(each["reason"] for each in findings)
    yield from _reasons("/health/replicating", told, expected)
    yield from _differs("page: health", seen.page.get("health"), expected.health)
    yield from _differs("page: state", seen.page.get("state"), expected.state)
    yield from _reasons("page", "; ".join(seen.page.get("reasons", ())), expected)
    badge = seen.page.get("badge")
    badges = {"off"} if expected.elsewhere else _BADGES[expected.health]
    if badge not in badges:
        yield f"page: badge {badge}, expected one of {sorted(badges)}"


def _metrics(expected: Expectation, seen: Surfaces) -> Iterator[str]:
    healthy = {"healthy": 1.0, "unknown": None}.get(expected.health, 0.0)
    yield from _differs("mm2_flow_healthy", seen.metrics["healthy"], healthy)
    for side in ("source", "target"):
        reachable = 0.0 if side in expected.lost else 1.0
        name = f"mm2_flow_cluster_reachable {side}"
        yield from _differs(name, seen.metrics[side], reachable)
    lag = seen.metrics["lag"]
    if lag is not None and not (expected.lag_is_least and lag >= (expected.lag or 0)):
        yield from _differs("mm2_replication_lag_records", lag, expected.lag)
    if expected.state == "PAUSED" and lag is None:
        yield "mm2_replication_lag_records: absent, although the backlog of a paused flow grows"


def _differs(what: str, found: object, expected: object) -> Iterator[str]:
    if found != expected:
        yield f"{what}: {found!r}, expected {expected!r}"


def _reasons(what: str, found: str, expected: Expectation) -> Iterator[str]:
    if expected.health == "healthy":
        yield from _differs(f"{what}: reasons", found, "")
    else:
        yield from _matches(f"{what}: reasons", found, expected.reason)


def _matches(what: str, found: str, pattern: str) -> Iterator[str]:
    if not re.search(pattern, found):
        yield f"{what}: {found!r} does not match {pattern!r}"
