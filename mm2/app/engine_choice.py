"""The engine that a file's flows run on: as it says, with no more cores than they have tasks."""

from __future__ import annotations

import dataclasses

from mm2.app.settings import settings as app_settings
from mm2.core.configs import engine_settings

STANDALONE = "spark://"


def of(settings: app_settings.Settings) -> engine_settings.EngineSettings:
    """What this process's data plane is opened with."""
    spark = settings.spark
    conf = spark.conf
    if spark.master.startswith(STANDALONE):
        # On a standalone cluster no process takes more cores than it has tasks.
        conf = {"spark.cores.max": str(copies(settings)), **conf}
    hidden = settings.secret_environment
    return dataclasses.replace(spark, conf=conf, hidden_environment=hidden)


def copies(settings: app_settings.Settings) -> int:
    """How many copies a node alone runs at the same time, at most."""
    return sum(flow.tasks_max for flow in settings.flows)
