"""Reads the section `hooks`: commands that run at named steps of a failover or failback.

hooks:
  stop-producers:
    command: [/usr/local/bin/drain, --all]
    timeout.ms: 120000
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.config import config_errors
from connect_runtime.config.yaml_parser import YamlScalar, YamlSection
from mm2.config import config_value_types, yaml_section_reader
from mm2.config.config_value_types import TextListType
from mm2.config.mm2_settings import HookCommand
from mm2.config.yaml_section_reader import ConfigOption, ProblemCollector, SectionReader

HOOKS_SECTION = "hooks"
_ALLOWED = "a list of the program and its arguments, which is run without a shell"
_COMMAND = ConfigOption(name="command", kind=TextListType(_ALLOWED), default=None)
_TIMEOUT = ConfigOption(
    name="timeout.ms", kind=config_value_types.integer_type(1, 24 * 3_600_000), default="300000"
)
HOOK_NAMES = ("stop-producers", "stop-consumers", "start-consumers", "start-producers")


def read_hooks_section(
    collector: ProblemCollector, section: YamlSection
) -> tuple[Mapping[str, HookCommand], Mapping[str, object]]:
    """Read the valid hooks by step, with their text values. Problems are reported."""
    found: dict[str, HookCommand] = {}
    shown: dict[str, object] = {}
    for entry in section.entries:
        path = f"{HOOKS_SECTION}.{entry.key}"
        if entry.key not in HOOK_NAMES:
            nearest = config_errors.find_nearest_name(entry.key, HOOK_NAMES)
            allowed = ", ".join(HOOK_NAMES)
            collector.report_error(
                entry.line, path, "is not a hook", allowed=allowed, nearest=nearest
            )
            continue
        given = yaml_section_reader.convert_to_section(collector, entry, path=path)
        hook = None if given is None else _read_hook(collector, given, path=path, shown=shown)
        if hook is not None:
            found[entry.key] = hook
    return found, shown


def _read_hook(
    collector: ProblemCollector,
    section: YamlSection,
    *,
    path: str,
    shown: dict[str, object],
) -> HookCommand | None:
    about = SectionReader(collector, section, path=path)
    command = section.get_entry(_COMMAND.name)
    words: tuple[str, ...] | None = ()
    if command is not None and isinstance(command.value, YamlScalar):
        about.find_entries_with_prefix((_COMMAND.name,))  # its commas are its own
    else:
        words = about.get_required(_COMMAND)
    if words is not None and not "".join(words[:1]).strip():
        line = section.line if command is None else command.line
        collector.report_error(line, f"{path}.{_COMMAND.name}", f"must be {_ALLOWED}")
        words = None
    timeout_ms = about.get(_TIMEOUT)
    about.report_unread_keys(refused={})
    known = dict(about.effective)
    if words and _COMMAND.name in known:  # arguments may be secrets
        hidden = [config_errors.HIDDEN_VALUE] if words[1:] else []
        known[_COMMAND.name] = [words[0], *hidden]
    shown[path.removeprefix(f"{HOOKS_SECTION}.")] = known
    if words is None:
        return None
    return HookCommand(command=words, timeout_s=timeout_ms / 1000)
