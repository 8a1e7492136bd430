"""What our image promises, read from its Dockerfile, and what is wrong with that file.

The other judges hold compose file, manifests and unit against it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from mm2.cli import main
from mm2.status import health_endpoints
from tests.support.image import dockerfile
from tests.support.image.dockerfile import Stage

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
LIVE, READY = health_endpoints.LIVE_PATH, health_endpoints.READY_PATH
SCRATCH = "/tmp"
REST_PORT, METRICS_PORT = 8090, 9464
KEPT = ("HOME", "MM2_CACHE")
"""What is written there may be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`state` is the folder that may be kept, `at` the one that commands begin in."""

    uid: int
    state: str
    at: str
    ports: frozenset[int]
    command: tuple[str, ...]


def read(text: str) -> tuple[Stage, ...]:
    return dockerfile.parse(text)


def ours() -> Image:
    """Of the Dockerfile in the repository."""
    return facts(read((DEPLOY / "Dockerfile").read_text())[-1])


def facts(last: Stage) -> Image:
    """Raises `LookupError` or `ValueError` where the stage does not say it."""
    return Image(
        uid=int(last.last("USER").text.partition(":")[0]),
        state=last.last("VOLUME").text,
        at=last.last("WORKDIR").text,
        ports=frozenset(map(int, last.last("EXPOSE").words)),
        command=(*last.last("ENTRYPOINT").words, *last.last("CMD").words),
    )


def wrong(stages: Sequence[Stage]) -> list[str]:
    """What is not as it has to be, in words."""
    first, last = stages[0], stages[-1]
    found = [*_of_downloads(stages), *_of_words(last)]
    if first is last or first.base != last.base:
        found.append("what builds and what runs have to be two stages on one base")
    if last.last("USER").text != "10001:10001":
        found.append("USER has to be a number that is not root's, and its group")
    after = last.instructions[last.instructions.index(last.last("USER")) :]
    if any(each.name in {"RUN", "COPY"} for each in after):
        found.append("nothing is installed by the user who runs it")
    copied = [each for each in last.all("COPY") if not each.text.startswith("--from=")]
    if copied:
        found.append("the last stage takes nothing from the context")
    if last.last("STOPSIGNAL").text != "SIGTERM":
        found.append("STOPSIGNAL has to be SIGTERM, which stops in order")
    environment = last.environment({"PATH": "/usr/bin"})
    state = last.last("VOLUME").text
    outside = [each for each in KEPT if not environment.get(each, "").startswith(state)]
    found.extend(f"{key} has to be in the volume" for key in outside)
    address = f"http://127.0.0.1:{METRICS_PORT}{LIVE}"
    if not any(address in word for word in last.healthcheck):
        found.append(f"HEALTHCHECK has to ask {address}")
    return found


def _of_downloads(stages: Sequence[Stage]) -> list[str]:
    found = []
    for each in (each for stage in stages for each in stage.all("RUN")):
        for command in re.split(r"&&|;", each.text):
            fetches = re.search(r"\bpip\b.* (install|wheel) ", command)
            if fetches and not {"--require-hashes", "--no-index"} & set(command.split()):
                found.append(f"line {each.line}: pip takes what has no hash: {command.strip()}")
        if re.search(r"https?://|--index|--trusted-host|curl |wget ", each.text):
            found.append(f"line {each.line}: says where from")
    return found


def _of_words(last: Stage) -> list[str]:
    return not_a_command(facts(last).command)


def not_a_command(words: Sequence[str]) -> list[str]:
    """Why the command line of mm2 does not take these words; empty where it does."""
    program, *arguments = words
    if program != "mm2":
        return [f"{program} is not mm2"]
    command: click.Command = main.cli
    context = click.Context(command, info_name=program)
    try:
        while isinstance(command, click.Group):
            _, arguments, _ = command.make_parser(context).parse_args(list(arguments))
            if not arguments and words[-1].startswith("-"):
                return []  # it prints something, such as --version
            if not arguments:
                return [f"{' '.join(words)}: Missing command"]
            name, found, arguments = command.resolve_command(context, arguments)
            assert found is not None
            command, context = found, click.Context(found, parent=context, info_name=name)
        command.make_context(context.info_name, list(arguments), parent=context.parent)
    except click.exceptions.Exit:
        return []  # it prints its help
    except click.exceptions.NoArgsIsHelpError:
        return [f"{' '.join(words)}: Missing arguments"]
    except click.ClickException as error:
        return [f"{' '.join(words)}: {error.format_message()}"]
    return []
