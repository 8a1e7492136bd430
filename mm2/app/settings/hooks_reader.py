"""The section `hooks`: commands of the operator's at named steps of a move.

hooks:
  stop-producers:
    command: [/usr/local/bin/drain, --all]
    timeout.ms: 120000
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.adapters.config import yaml_source
from connect_runtime.app.settings import problems
from mm2.app.settings import reader, settings
from mm2.core.configs import kinds
from mm2.core.failover import steps

PATH = "hooks"
_ALLOWED = "a list: the program and its arguments, which no shell reads"
_COMMAND = reader.Option(name="command", kind=kinds.Texts(_ALLOWED), default=None)
_TIMEOUT = reader.Option(name="timeout.ms", kind=kinds.whole(1, 24 * 3_600_000), default="300000")
NAMES = tuple(step.value for step in steps.Step if step in steps.HOOKS)


def read(
    account: reader.Account, section: yaml_source.Section
) -> tuple[Mapping[str, settings.Hook], Mapping[str, object]]:
    """By step, and their texts for people; mistakes are noted and left out."""
    found: dict[str, settings.Hook] = {}
    shown: dict[str, object] = {}
    for entry in section.entries:
        path = f"{PATH}.{entry.key}"
        if entry.key not in NAMES:
            nearest = problems.nearest(entry.key, NAMES)
            allowed = ", ".join(NAMES)
            account.note(
                entry.line, path, "is no step that has a hook", allowed=allowed, nearest=nearest
            )
            continue
        given = reader.as_section(account, entry, path=path)
        hook = None if given is None else _hook(account, given, path=path, shown=shown)
        if hook is not None:
            found[entry.key] = hook
    return found, shown


def _hook(
    account: reader.Account,
    section: yaml_source.Section,
    *,
    path: str,
    shown: dict[str, object],
) -> settings.Hook | None:
    about = reader.SectionReader(account, section, path=path)
    command = section.get(_COMMAND.name)
    words: tuple[str, ...] | None = ()
    if command is not None and isinstance(command.value, yaml_source.Scalar):
        about.family((_COMMAND.name,))  # its commas are its own
    else:
        words = about.require(_COMMAND)
    if words is not None and not "".join(words[:1]).strip():
        line = section.line if command is None else command.line
        account.note(line, f"{path}.{_COMMAND.name}", f"has to be {_ALLOWED}")
        words = None
    timeout_ms = about.get(_TIMEOUT)
    about.finish(refused={})
    shown[path.removeprefix(f"{PATH}.")] = dict(about.effective)
    if words is None:
        return None
    return settings.Hook(command=words, timeout_s=timeout_ms / 1000)
