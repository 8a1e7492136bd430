"""What a move is done with on real clusters: the composition of `tools.Tools`."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from mm2.app import connections, flow_plan
from mm2.app.failover import beforehand, crews, fencing, left_behind, planning, stopping, tools
from mm2.app.looks import identities, sides, workers
from mm2.app.settings import settings as app_settings
from mm2.connectors import operators
from mm2.core.failover import orders, places
from mm2.pipeline import single_questions

FENCE_S = 60.0
LOST = "it is taken for lost, as was asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds: how long both ends have to agree, how long others are waited for, and how long a
    look at both clusters may last."""

    settle_s: float = 60.0
    wait_s: float = 600.0
    look_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """`lost`: the cluster that is left is asked nothing. `tell`: how far it is, where that takes
    long."""

    settings: app_settings.Settings
    both: sides.Sides
    clock: base_clock.Clock
    patience: Patience = field(default_factory=Patience)
    lost: bool = False
    tell: crews.Tell = lambda _: None

    @property
    def planner(self) -> planning.Planner:
        finder = left_behind.Finder(
            there=self._crew(self._there, f"counting on {self.both.flow.target}", self.tell),
            here=self._crew(self._here, f"counting on {self.both.flow.source}", self.tell),
        )
        return planning.Planner(
            both=self.both,
            find=finder.find,
            clock=self.clock,
            timeout_s=self.patience.look_s,
            lost=LOST if self.lost else "",
            tools=operators.cluster(
                connections.access(
                    self.settings.clients_of(self.both.flow).target_admin, self.both.flow.target
                )
            ),
            ways=places.ways(self.settings.flat.props, self.both.flow, self.settings.flows),
        )

    def clusters(self, *, silent: bool) -> orders.Clusters:
        """See `identities.look`; `silent`: the cluster that is left is known not to answer."""
        lost = self.lost or silent
        return identities.look(self.both, lost=lost, timeout_s=self.patience.look_s)

    def beforehand(self) -> beforehand.Beforehand:
        """Raises as `tools`."""
        flow, target = self.both.flow, self.both.target
        clients, props = self.settings.clients_of(flow), self._props
        known_as = {
            "worker": self.settings.clusters[flow.target],
            "admin": clients.target_admin,
            "producer": clients.producer,
        }
        return beforehand.Beforehand(
            flow=flow.name,
            config_topic=props["config.storage.topic"],
            workers=lambda: self._workers(props),
            clusters=lambda silent: self.clusters(silent=silent),
            transactional_id=flow.transactional_id,
            denied_ids=lambda names: fencing.denied(self._there, names),
            as_worker=lambda: target.rights(administering=False),
            as_admin=lambda: target.rights(administering=True),
            known_as={
                name: operators.cluster(connections.access(each, flow.target))
                for name, each in known_as.items()
            },
            hooks=self.settings.hooks,
            timeout_s=self.patience.look_s,
        )

    @property
    def _props(self) -> Mapping[str, str]:
        """The flow's worker's."""
        (plan,) = flow_plan.plans(
            self.settings,
            flow_plan.Choice(names=(self.both.flow.name,)),
            environment=os.environ,
        )
        return plan.worker_props

    def tools(self, tell: Callable[[str], object]) -> tools.Tools:
        """Raises `SettingsError` and `ConfigError` where the flow's worker cannot be told."""
        props = self._props
        return tools.Tools(
            both=self.both,
            map_reader=self.both.target.map_reader(self.both.flow.source),
            planner=self.planner,
            stop=lambda: stopping.stop(
                self.both.target, props, clock=self.clock, timeout_s=tools.WRITE_S
            ),
            running=lambda: stopping.running(self._workers(props)),
            fence=lambda known, partitions: fencing.fence(
                self.both.flow,
                known,
                partitions,
                crew=self._crew(self._there, "fencing", tell),
                timeout_s=FENCE_S,
            ),
            export=lambda path, found, move: left_behind.export(
                path,
                found,
                move=move,
                cluster=self.both.flow.target,
                connect=self._there,
                clock=self.clock,
            ),
            clock=self.clock,
            pause=threading.Event().wait,
            tell=tell,
            hooks=self.settings.hooks,
            settle_s=self.patience.settle_s,
            wait_s=self.patience.wait_s,
            file=self.settings.file,
        )

    def _there(self) -> single_questions.SingleQuestions:
        flow = self.both.flow
        clients = self.settings.clients_of(flow)
        return self._questions(clients.producer, flow.target)

    def _here(self) -> single_questions.SingleQuestions:
        flow = self.both.flow
        return self._questions(self.settings.clients_of(flow).consumer, flow.source)

    def _questions(
        self, cluster: app_settings.ClusterSettings, alias: str
    ) -> single_questions.SingleQuestions:
        client_id = f"mm2-{self.both.flow.name}-failover"
        wire = connections.wire_settings(cluster, alias, client_id=client_id)
        return single_questions.SingleQuestions(
            wire, clock=self.clock, random=random.SystemRandom()
        )

    def _workers(self, props: Mapping[str, str]) -> workers.Workers:
        timeout_s = self.patience.look_s
        return workers.look(self.both.target, props, clock=self.clock, timeout_s=timeout_s)

    def _crew(self, connect: crews.Connect, doing: str, tell: crews.Tell) -> crews.Crew:
        return crews.Crew(connect=connect, clock=self.clock, doing=doing, tell=tell)
