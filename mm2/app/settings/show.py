"""The effective settings as text: what a file and the defaults add up to, without secrets."""

from __future__ import annotations

from connect_runtime.adapters.config import yaml_source
from mm2.app.settings import settings


def show(found: settings.Settings) -> str:
    """YAML with every setting in force; secrets are already hidden in `found.effective`."""
    return yaml_source.render(dict(found.effective))
