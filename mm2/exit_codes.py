"""Exit codes of every command. `--help` and `mm2 docs exit-codes` print these tables.

The codes are 0 (success), 1 (problem found or command failed), 2 (bad input), 3 (health unknown)
and 4 (nothing responded). A command with several results combines their codes into one
(`combine_exit_codes`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass

DONE = 0
"""The command succeeded; everything that the command checked is healthy."""
FAILED = 1
"""A problem was found, or the command failed."""
BAD_INPUT = 2
"""Wrong usage or an invalid configuration; nothing was changed."""
UNKNOWN = 3
"""Health could not be determined because some responses are missing."""
UNREACHABLE = 4
"""No result could be determined: neither a process nor a cluster responded."""
INTERRUPTED = 130
"""The command was ended by SIGINT (Ctrl-C): 128 + 2, by shell convention."""
TERMINATED = 143
"""The command was ended by SIGTERM: 128 + 15, by shell convention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode:
    """An exit code of `mm2`, with its name and meaning."""

    number: int
    name: str
    meaning: str
    """Meaning for commands without a specific entry in `COMMAND_EXIT_CODES`."""


EXIT_CODES: Mapping[int, ExitCode] = {
    each.number: each
    for each in (
        ExitCode(
            number=DONE,
            name="done",
            meaning="the command succeeded; everything it checked is healthy",
        ),
        ExitCode(
            number=FAILED,
            name="problem",
            meaning="a problem was found, or the command failed",
        ),
        ExitCode(
            number=BAD_INPUT,
            name="bad input",
            meaning="wrong usage or an invalid configuration; nothing was done",
        ),
        ExitCode(
            number=UNKNOWN,
            name="unknown",
            meaning="health could not be determined because some responses are missing",
        ),
        ExitCode(
            number=UNREACHABLE,
            name="unreachable",
            meaning="nothing could be determined: neither a process nor a cluster responded",
        ),
        ExitCode(number=INTERRUPTED, name="interrupted", meaning="ended by Ctrl-C (SIGINT)"),
        ExitCode(number=TERMINATED, name="terminated", meaning="ended by SIGTERM"),
    )
}

_NO_PROCESS_ANSWERED = "no mm2 process that runs this configuration responded on this machine"
_NO_CLUSTER_ANSWERED = "no cluster responded"
_WRONG_USAGE = "wrong usage; nothing was done"
_TEXT_COMMAND_CODES: Mapping[int, str] = {DONE: "the text was printed", BAD_INPUT: _WRONG_USAGE}
_FLOW_CONTROL_CODES: Mapping[int, str] = {
    FAILED: "the process rejected the change, or the change failed",
    BAD_INPUT: "wrong usage, or no such flow or topic; nothing was done",
    UNREACHABLE: _NO_PROCESS_ANSWERED,
}
_FAILOVER_CODES: Mapping[int, str] = {
    DONE: "the verdict is GO or GO, AT A COST; with --execute: every step succeeded",
    FAILED: "the verdict is NO-GO, a step failed, or the user did not confirm the plan",
    UNREACHABLE: "the clusters that the plan needs did not respond; nothing was changed",
}

COMMAND_EXIT_CODES: Mapping[str, Mapping[int, str]] = {
    "check": {
        DONE: "no check failed; there may be warnings",
        FAILED: "at least one check failed",
        UNREACHABLE: _NO_CLUSTER_ANSWERED,
    },
    "completion": _TEXT_COMMAND_CODES,
    "config check": {DONE: "the configuration is valid; there may be warnings"},
    "config convert": {
        DONE: "the whole configuration was converted",
        FAILED: "the other format cannot express some settings; the command lists these settings",
    },
    "config show": {DONE: "the effective configuration was printed"},
    "demo": {
        DONE: (
            "both clusters have the same records, and the consumer group processed each record "
            "exactly once"
        ),
        FAILED: (
            "records differ, were lost or were processed twice, or the demo could not be completed"
        ),
        BAD_INPUT: _WRONG_USAGE,
    },
    "docs": _TEXT_COMMAND_CODES,
    "drill": {
        DONE: "the rehearsed failover passed all checks",
        FAILED: "groups skipped replicated records, groups re-read more records than the failover "
        "report allows, a planned failover lost or repeated records, or a step failed",
    },
    "failback": _FAILOVER_CODES,
    "failover": _FAILOVER_CODES,
    "lag": {
        DONE: "the lag of every flow is known, and within --max-records and --max-seconds",
        FAILED: "the lag of a flow is above --max-records or --max-seconds, or a cluster is "
        "unreachable",
        UNKNOWN: "the lag of a flow is not known",
        UNREACHABLE: EXIT_CODES[UNREACHABLE].meaning,
    },
    "offsets rebuild": {
        DONE: "the offset map contains every offset that can be determined",
        FAILED: "a partition's offset map could not be rebuilt, or only partially",
        UNREACHABLE: _NO_CLUSTER_ANSWERED,
    },
    "offsets skip": {
        DONE: "the record was skipped, and an incident identifies the record",
        FAILED: "the incident or the tombstone could not be written or read back; correct the "
        "reported error and run the command again",
        BAD_INPUT: (
            "wrong usage (--from is required for a record that describes an era, and rejected for "
            "other records), or the record at that offset is readable or missing; nothing was done"
        ),
        UNREACHABLE: _NO_CLUSTER_ANSWERED,
    },
    "offsets translate": {
        DONE: "every offset was translated",
        FAILED: "an offset could not be translated, or is beyond the log end",
        UNREACHABLE: _NO_CLUSTER_ANSWERED,
    },
    "pause": {DONE: "the flow or topic is paused", **_FLOW_CONTROL_CODES},
    "probe": {
        DONE: "every flow can replicate exactly once",
        FAILED: "a flow cannot replicate exactly once",
        UNKNOWN: "a flow can probably replicate exactly once, but not every check could be run",
        UNREACHABLE: "a cluster did not respond",
    },
    "incidents": {
        DONE: "every target was read; with --exit-code: no incident or unreadable record is "
        "listed (see code 1)",
        FAILED: "with --exit-code: an incident or an unreadable record is listed; "
        "operator-action counts only if --kind selects it",
        UNKNOWN: "a target could not be read; the incidents on the other targets are listed",
        UNREACHABLE: "no target could be read",
    },
    "reload": {
        DONE: "the configuration is applied (with --dry-run: the differences are listed)",
        FAILED: "the configuration could not be applied",
        BAD_INPUT: "wrong usage or an invalid configuration; the process keeps the old "
        "configuration",
        UNREACHABLE: _NO_PROCESS_ANSWERED,
    },
    "restart": {DONE: "the restart was requested", **_FLOW_CONTROL_CODES},
    "resume": {
        DONE: "the flow or topic is resumed",
        **_FLOW_CONTROL_CODES,
    },
    "run": {
        DONE: "with --until-caught-up: all records were replicated",
        FAILED: "a flow failed, replication did not catch up within --timeout, or the metrics port "
        "is in use and metrics.required is not false",
        BAD_INPUT: "wrong usage, or an invalid configuration; nothing was started",
        UNKNOWN: "with --until-caught-up: other nodes run all tasks of a flow; use mm2 lag to "
        "check whether it has caught up",
        INTERRUPTED: EXIT_CODES[INTERRUPTED].meaning,
        TERMINATED: EXIT_CODES[TERMINATED].meaning,
    },
    "sandbox down": {
        DONE: "no sandbox is running now",
        FAILED: "the sandbox could not be stopped",
        BAD_INPUT: _WRONG_USAGE,
    },
    "sandbox env": {
        DONE: "the variables were printed",
        FAILED: "no sandbox is running",
        BAD_INPUT: _WRONG_USAGE,
    },
    "sandbox kafka": {
        DONE: "the Kafka tool succeeded; a failed tool may return codes that are not listed here",
        FAILED: "the Kafka tool failed, or no sandbox is running",
        BAD_INPUT: "unknown Kafka tool or cluster; nothing was done",
    },
    "sandbox logs": {
        DONE: "the logs were printed",
        FAILED: "this cluster has no logs",
        BAD_INPUT: _WRONG_USAGE,
    },
    "sandbox status": {
        DONE: "every broker of the sandbox is up",
        FAILED: "a broker is dead or does not respond, or no sandbox is running",
        BAD_INPUT: _WRONG_USAGE,
    },
    "sandbox up": {
        DONE: "every broker of the clusters is up",
        FAILED: "a cluster did not start, or a broker of a running sandbox is not up",
        BAD_INPUT: _WRONG_USAGE,
    },
    "status": {
        DONE: "every flow is healthy: records are being replicated, and no data loss is imminent",
        FAILED: (
            "a flow is not healthy: a cluster is unreachable, a partition or task has stopped, "
            "data loss is imminent, or the flow is paused, stopped or starting"
        ),
        UNKNOWN: "the state of a flow is not known",
        UNREACHABLE: EXIT_CODES[UNREACHABLE].meaning,
    },
    "throttle": {DONE: "the limit is set", **_FLOW_CONTROL_CODES},
    "topic reset": {
        DONE: (
            "the partitions are being replicated again, or will be when the flow is started or "
            "resumed"
        ),
        FAILED: "the reset is recorded, but a partition was not replicated within --timeout or "
        "its task could not be restarted; if only an error is printed, the reset could not be "
        "recorded",
        BAD_INPUT: "wrong usage, or the flow does not replicate this topic; nothing was done",
        UNKNOWN: (
            "the partitions were restarted on a node that is not reachable from this machine, so "
            "it is unknown whether they are being replicated"
        ),
        UNREACHABLE: "the source or the target cluster did not respond; the reset was not recorded",
    },
    "why": {
        DONE: "the command explained how the topic is replicated, or why it is not",
        BAD_INPUT: "wrong usage, an invalid configuration, or the topic is on no flow's source",
        UNKNOWN: (
            "the topic is on no source that could be queried, and another source or a process on "
            "this machine did not respond"
        ),
        UNREACHABLE: EXIT_CODES[UNREACHABLE].meaning,
    },
}
"""Command-specific meanings of exit codes. The key is the command without `mm2`."""


def list_exit_code_meanings(command: str) -> dict[int, str]:
    """Return the meaning of every exit code of a command, ordered by code.

    BAD_INPUT is added for every command. INTERRUPTED (Ctrl-C) is possible for all commands but
    listed only for `run`. Raises `KeyError` if the command is unknown.
    """
    own = COMMAND_EXIT_CODES[command]
    return dict(sorted({BAD_INPUT: EXIT_CODES[BAD_INPUT].meaning, **own}.items()))


def format_exit_codes_help(command: str, *, width: int = 78) -> str:
    """Return the "Exit codes" section of a command's `--help`."""
    lines = ["Exit codes:"]
    for number, means in list_exit_code_meanings(command).items():
        head = f"  {number:<5}"
        lines += textwrap.wrap(
            f"{EXIT_CODES[number].name}: {means}",
            width,
            initial_indent=head,
            subsequent_indent=" " * len(head),
        )
    return "\n".join(lines)


def combine_exit_codes(codes: Collection[int]) -> int:
    """Combine the exit codes of several results into one.

    Returns UNREACHABLE only if all results are UNREACHABLE. Otherwise returns the highest code,
    where UNREACHABLE counts as UNKNOWN. UNKNOWN outranks FAILED because an unknown result may hide
    a worse problem.
    """
    if not codes:
        return DONE
    if set(codes) == {UNREACHABLE}:
        return UNREACHABLE
    return max(min(each, UNKNOWN) for each in codes)


def render_exit_codes_page() -> str:
    """Render the reference page `exit-codes.md` as Markdown."""
    lines = [
        "# Exit codes",
        "",
        "All `mm2` commands use the same exit codes.",
        "A problem (1), an unknown state (3) and an unreachable cluster or process (4) have "
        "different codes, so that scripts never interpret a missing response as healthy.",
        "The `--help` text of each command lists its exit codes.",
        "This page is generated by `mm2 docs exit-codes`.",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
        *(f"| {each.number} | {each.name} | {each.meaning} |" for each in EXIT_CODES.values()),
        "",
        "A command that checks several flows or clusters exits with code 4 if no flow or cluster "
        "responded, with 3 if some did not respond, and with 1 if all responded and a problem was "
        "found.",
        "For `mm2 status` and `mm2 lag`, a cluster that a flow cannot reach is a problem (1), "
        "because nothing is replicated.",
        "Ctrl-C ends every command with exit code 130.",
        "",
        "Example script, and its output if the configuration file does not exist:",
        "",
        "```sh",
        "code=0",
        "mm2 lag --max-records 0 || code=$?",
        "case $code in",
        '  0) echo "caught up" ;;',
        '  1) echo "records are unreplicated, or a cluster is unreachable: wait" ;;',
        '  *) echo "not known (exit code $code): do not cut over" ;;',
        "esac",
        "```",
        "",
        "```text",
        "not known (exit code 2): do not cut over",
        "```",
        "",
        "## By command",
        "",
        "Exit code 2 has the general meaning above unless the table lists a different meaning for "
        "the command.",
        "",
        "| command | code | meaning |",
        "|---|---|---|",
    ]
    for command in sorted(COMMAND_EXIT_CODES):
        name = f"`mm2 {command}`"
        for number, means in sorted(COMMAND_EXIT_CODES[command].items()):
            lines.append(f"| {name} | {number} | {means} |")
            name = ""
    return "\n".join(lines) + "\n"
