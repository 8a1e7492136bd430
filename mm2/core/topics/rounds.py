"""When a flow's connector looks at its topics and at its tasks, and has settings and ACLs follow,
again."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.configs import connector_configs

AGAIN_S = 10.0
"""What failed is tried again after this time, or sooner if its interval is shorter."""
LOADS_S = 30.0
"""How often it is looked at what tasks carry."""


@dataclass(slots=True)
class Round:
    """One thing that is done at intervals of seconds; None: once. `due_s` None: never again."""

    interval_s: float | None
    due_s: float | None

    def is_due(self, now_s: float) -> bool:
        return self.due_s is not None and now_s >= self.due_s

    def done(self, now_s: float) -> None:
        self.due_s = None if self.interval_s is None else now_s + self.interval_s

    def failed(self, now_s: float) -> None:
        self.due_s = now_s + min(AGAIN_S, self.interval_s or AGAIN_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """A look is due at once. Settings follow with the first look, and then as often as is asked;
    ACLs soon after the start, as in Java. `loads`: whether a task carries too much."""

    looks: Round
    settings: Round
    acls: Round
    loads: Round

    def pause_s(self, now_s: float) -> float | None:
        """Seconds until something is due; None: nothing will be."""
        every = (self.looks, self.settings, self.acls, self.loads)
        dues = (each.due_s for each in every)
        first_s = min((each for each in dues if each is not None), default=None)
        return None if first_s is None else max(0.0, first_s - now_s)


def of(config: connector_configs.SourceConfig, *, now_s: float) -> Rounds:
    """As the configuration says."""
    flow = config.flow
    settings_s, acls_s = flow.sync_topic_configs_interval_s, config.sync_acls_interval_s
    return Rounds(
        looks=Round(flow.refresh_topics_interval_s, now_s),
        settings=Round(settings_s, None if settings_s is None else now_s + settings_s),
        acls=Round(acls_s, None if acls_s is None else now_s),
        loads=Round(LOADS_S, now_s + LOADS_S if flow.tasks_max > 1 else None),
    )
