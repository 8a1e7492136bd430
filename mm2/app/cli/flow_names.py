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


def find_or_only(settings: app_settings.Settings, name: str | None, *, hint: str) -> flows.Flow:
    """As `find`; without a name the only flow of the file. Raises `click.UsageError` where there
    are several."""
    if name is not None:
        return find(settings, name, hint=hint)
    if len(settings.flows) == 1:
        return settings.flows[0]
    known = ", ".join(f"'{flow.name}'" for flow in settings.flows)
    raise click.UsageError(f"{settings.file} has several flows: say {hint}, one of {known}")
