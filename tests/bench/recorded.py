"""A run of the benchmark as a file; the files of several runs make one report. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tests.bench import contestants
from tests.bench.contestants import Contestant
from tests.bench.report import Setting
from tests.bench.results import (
    Copy,
    Following,
    Rebalance,
    Recovery,
    Rereading,
    Results,
    Scraping,
    Start,
    Trickle,
)
from tests.bench.workloads import Goal, Measure, Produced, Shape, Workload

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was measured, and what the figures belong to."""

    setting: Setting
    measured: Results

    def to_json(self) -> str:
        setting = self.setting
        return json.dumps(
            {
                "version": _VERSION,
                "machine": setting.machine,
                "versions": setting.versions,
                "rounds": setting.rounds,
                "latency_s": setting.latency_s,
                "per_second": setting.per_second,
                "contestants": [each.key for each in setting.contestants],
                "produced": [_told(each) for each in setting.produced],
                "measured": asdict(self.measured),
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> Recorded:
        """Raises `ValueError`, `KeyError` or `TypeError` for what another version has written."""
        given: dict[str, Any] = json.loads(text)
        if given["version"] != _VERSION:
            raise ValueError(f"version {given['version']} of a benchmark's file, not {_VERSION}")
        of = {each.key: each for each in contestants.ALL}
        return cls(
            setting=setting_of(
                [of[key] for key in given["contestants"]],
                machine=given["machine"],
                versions=given["versions"],
                rounds=given["rounds"],
                latency_s=given["latency_s"],
                per_second=given["per_second"],
                produced=[_produced(each) for each in given["produced"]],
            ),
            measured=Results(
                copies=[Copy(**each) for each in given["measured"]["copies"]],
                trickles=[Trickle(**each) for each in given["measured"]["trickles"]],
                # Files from before there were any have none.
                rebalances=[Rebalance(**each) for each in given["measured"].get("rebalances", ())],
                starts=[Start(**each) for each in given["measured"].get("starts", ())],
                recoveries=[Recovery(**each) for each in given["measured"].get("recoveries", ())],
                followings=[Following(**each) for each in given["measured"].get("followings", ())],
                rereadings=[Rereading(**each) for each in given["measured"].get("rereadings", ())],
                scrapings=[Scraping(**each) for each in given["measured"].get("scrapings", ())],
            ),
        )


def setting_of(
    measured: Sequence[Contestant],
    *,
    machine: str,
    versions: str,
    rounds: int,
    latency_s: float,
    per_second: float,
    produced: Sequence[Produced],
) -> Setting:
    """Ours is `mm2 run`, its rivals are the others that were measured."""
    keys = [each.key for each in measured]
    ours = contestants.MM2_RUN.key
    return Setting(
        machine=machine,
        versions=versions,
        rounds=rounds,
        produced=produced,
        contestants=tuple(measured),
        ours=ours,
        rivals=[key for key in keys if key != ours and ours in keys],
        latency_s=latency_s,
        per_second=per_second,
    )


def joined(runs: Sequence[Recorded]) -> Recorded:
    """As if they had been one run, their workloads in this order.

    `rounds` are the most that one of them made. `ValueError` where their machines, versions or
    contestants differ, or two of them measured the same.
    """
    first = runs[0].setting
    alike = ("machine", "versions", "contestants", "per_second")
    for name in alike:
        if any(getattr(each.setting, name) != getattr(first, name) for each in runs):
            raise ValueError(f"these runs differ in their {name}: they make no common table")
    produced = [each for run in runs for each in run.setting.produced]
    topics = [each.workload.topic for each in produced]
    for run in runs:
        topics += sorted({f"{each.tasks} tasks" for each in run.measured.rebalances})
        topics += ["starts"] * bool(run.measured.starts)
        topics += ["recoveries"] * bool(run.measured.recoveries)
        topics += ["groups"] * bool(run.measured.followings)
        topics += ["records read again"] * bool(run.measured.rereadings)
        topics += ["scrapes"] * bool(run.measured.scrapings)
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise ValueError(f"measured in more than one of these runs: {', '.join(twice)}")
    return Recorded(
        setting=replace(
            first,
            produced=produced,
            rounds=max(each.setting.rounds for each in runs),
            latency_s=max(each.setting.latency_s for each in runs),
        ),
        measured=Results(
            copies=[each for run in runs for each in run.measured.copies],
            trickles=[each for run in runs for each in run.measured.trickles],
            rebalances=[each for run in runs for each in run.measured.rebalances],
            starts=[each for run in runs for each in run.measured.starts],
            recoveries=[each for run in runs for each in run.measured.recoveries],
            followings=[each for run in runs for each in run.measured.followings],
            rereadings=[each for run in runs for each in run.measured.rereadings],
            scrapings=[each for run in runs for each in run.measured.scrapings],
        ),
    )


def _told(produced: Produced) -> dict[str, Any]:
    told = asdict(produced)
    told["workload"] |= {
        "shape": produced.workload.shape.name,
        "goals": [
            {"factor": goal.factor, "measure": goal.measure.name}
            for goal in produced.workload.goals
        ],
    }
    return told


def _produced(told: dict[str, Any]) -> Produced:
    workload = told["workload"]
    goals = tuple(
        Goal(factor=goal["factor"], measure=Measure[goal["measure"]]) for goal in workload["goals"]
    )
    shape = Shape[workload["shape"]]
    return Produced(
        workload=Workload(**{**workload, "goals": goals, "shape": shape}),
        records={int(number): count for number, count in told["records"].items()},
        batch_bytes_mean=told["batch_bytes_mean"],
    )
