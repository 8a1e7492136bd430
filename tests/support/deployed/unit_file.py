"""What is wrong with our systemd unit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from mm2 import exit_codes
from tests.support.deployed import image

Sections = Mapping[str, Mapping[str, Sequence[str]]]
STATE, RUN = "/var/lib/mm2", "/run/mm2"
STOP_S = 30
HARDENED = (
    *("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectControlGroups"),
    *("ProtectKernelModules", "ProtectKernelTunables", "RestrictNamespaces", "RestrictSUIDSGID"),
)


def read(text: str) -> Sections:
    """By section and key; a key may come several times."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


def wrong(unit: Sections) -> list[str]:
    """In words."""
    service = unit["Service"]
    return [*_of_commands(service), *_of_ends(service), *_of_rights(service), *_of_places(service)]


def last(service: Mapping[str, Sequence[str]], key: str) -> str:
    return service.get(key, [""])[-1]


def _of_commands(service: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for key in ("ExecStart", "ExecReload"):
        program, *arguments = shlex.split(last(service, key)) or [""]
        if not program.startswith("/opt/mm2/bin/"):
            yield f"{key} has to be in /opt/mm2"
        yield from image.not_a_command([program.rpartition("/")[2], *arguments])
        if arguments[-1:] != ["clusters.yaml"]:
            yield f"{key} is of another file"
    if last(service, "WorkingDirectory") != "/etc/mm2":
        yield "the file is in /etc/mm2: WorkingDirectory"


def _of_ends(service: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if last(service, "Restart") != "on-failure":
        yield "what failed is started again: Restart=on-failure"
    if last(service, "RestartPreventExitStatus") != str(exit_codes.BAD_INPUT):
        yield "no restart mends a wrong file: RestartPreventExitStatus=2"
    if last(service, "SuccessExitStatus") != "143":
        yield "a stop is no failure: SuccessExitStatus=143"
    if last(service, "KillMode") != "mixed":
        yield "Spark's processes are not ended before mm2 has: KillMode=mixed"
    if int(last(service, "TimeoutStopSec") or 0) < STOP_S:
        yield "what is in flight is acknowledged first: TimeoutStopSec"


def _of_rights(service: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if last(service, "User") in {"", "root", "0"}:
        yield "runs as root"
    for key in HARDENED:
        if last(service, key) != "yes":
            yield f"{key} is not on"
    if last(service, "ProtectSystem") != "strict":
        yield "may write everywhere: ProtectSystem=strict"
    if service.get("CapabilityBoundingSet") != [""]:
        yield "keeps rights of root's: CapabilityBoundingSet"
    if "MemoryDenyWriteExecute" in service:
        yield "Java compiles as it runs, which MemoryDenyWriteExecute forbids"


def _of_places(service: Mapping[str, Sequence[str]]) -> Iterator[str]:
    variables = dict(each.split("=", 1) for each in service.get("Environment", []))
    if not variables.get("MM2_CACHE", "").startswith(f"{STATE}/"):
        yield f"MM2_CACHE has to be in {STATE}, a folder of its own"
    if variables.get("MM2_RUN_DIR") != RUN:
        yield f"commands look for it in {RUN}: MM2_RUN_DIR"
    for key in ("StateDirectory", "RuntimeDirectory"):
        if last(service, key) != "mm2" or last(service, f"{key}Mode") != "0700":
            yield f"{key} has to be mm2, and its user's alone"
