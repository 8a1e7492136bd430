"""Finding the flow that an argument or option names."""

from __future__ import annotations

import click

from connect_runtime.app.settings import problems
from mm2.app.settings import settings as app_settings
from mm2.core import flows


def find(settings: app_settings.Settings, name: str, *, hint: str) -> flows.Flow:
    """Raises `click.BadParameter` (`hint` names the parameter) when there is no such flow."""
    known = {flow.name: flow for flow in settings.flows}
    if name in known:
        return known[name]
    nearest = problems.nearest(name, known)
    meant = "" if nearest is None else f"; did you mean '{nearest}'?"
    raise click.BadParameter(
        f"{settings.file} has no flow '{name}'; flows: {', '.join(known)}{meant}", param_hint=hint
    )
