"""`mm2 why`: a running `mm2 run` says how it copies a topic."""

from __future__ import annotations

import json
import pathlib

import click

from mm2.app import exits, run_socket

JSON_VERSION = 1


@click.command("why")
@click.argument("words", nargs=-1, metavar="[FILE] TOPIC")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the answer.",
)
def command(*, words: tuple[str, ...], as_json: bool, timeout_s: float) -> int:
    """Say how TOPIC is copied by the process that runs FILE (default: clusters.yaml), and why so.

    TOPIC is a topic of a source, or its mirror. For each flow and partition: passed through as it
    is, opened (and why), in transactions, at least once, waiting, or stopped, with the way on. Of a
    topic that is not mirrored: why not. The exit code is 0 when there was something to say, 1 when
    nobody runs FILE, 2 when no flow knows TOPIC.

    \b
    Examples:
      mm2 why orders
      mm2 why clusters.yaml east.orders --json
    """
    if not 1 <= len(words) <= 2:
        raise click.UsageError("say which topic: mm2 why [FILE] TOPIC")
    file = pathlib.Path(words[0] if len(words) == 2 else "clusters.yaml")
    answers = run_socket.ask(
        file,
        run_socket.WhyQuestion(topic=words[-1]),
        where=run_socket.folder(),
        timeout_s=timeout_s,
    )
    # Processes may share the flows of a file: one that knows the topic is enough.
    knowing = {pid: each for pid, each in answers.items() if each.code == exits.DONE}
    shown = knowing or answers
    if as_json:
        told = [
            {"process": pid, **flow}
            for pid, answer in shown.items()
            for flow in answer.detail.get("flows", ())
        ]
        found = {"version": JSON_VERSION, "topic": words[-1], "flows": told}
        click.echo(json.dumps(found, indent=2))
    for pid, answer in shown.items():
        failed = answer.code != exits.DONE
        for line in answer.lines if failed or not as_json else ():
            click.echo(f"{pid}: {line}" if len(shown) > 1 else line, err=failed)
    return max(answer.code for answer in shown.values())
