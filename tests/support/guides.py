"""Guides, followed literally: every `sh` block of a page in one shell, from top to bottom.

A `text` block right behind one is what it prints, among other lines: `…` stands for anything.
`console` blocks need more than this machine and are not run. The shell has its own processes,
network and temporary folder, which end with it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import processes, user_cache
from tests.support import loopback

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "::block "
TOO_LONG = 124
KINDS = frozenset({"sh", "text", "console", "yaml", "properties", "python"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`line` is that of its first word in the page; `prints` is what stands behind it."""

    line: int
    text: str
    prints: str = ""


def blocks(page: str) -> list[Block]:
    """What is to be typed. Raises `ValueError` for a fence of a kind that means nothing here."""
    found: list[Block] = []
    end_of_sh = -1
    for match in _FENCE.finditer(page):
        kind, text = match.groups()
        line = page.count("\n", 0, match.start()) + 2
        if kind not in KINDS:
            raise ValueError(f"line {line - 1}: a block of kind {kind!r}")
        if kind == "sh":
            found.append(Block(line=line, text=text))
            end_of_sh = match.end()
        elif kind == "text" and found and not page[end_of_sh : match.start()].strip():
            last = found.pop()
            found.append(Block(line=last.line, text=last.text, prints=text))
    return found


def script(asked: Sequence[Block]) -> str:
    """One shell for all of them; the first command that fails ends it, and so does a block that
    ends with one (`-e` alone passes over lists as `a && b`)."""
    lines = ["exec 2>&1", "set -eu -o pipefail"]
    for number, each in enumerate(asked):
        lines += [f"echo '{_MARK}{number}'", each.text, "test $? -eq 0"]
    return "\n".join([*lines, f"echo '{_MARK}{len(asked)}'", ""])


def wrong(asked: Sequence[Block], output: str, code: int) -> list[str]:
    """What did not work as printed."""
    said = dict(_parts(output))
    found = []
    if code:
        failed = asked[max(said)]
        found.append(f"line {failed.line}: ended with {code}\n{failed.text}\n{said[max(said)]}")
    for number, each in enumerate(asked):
        if number in said and not (code and number == max(said)):
            missing = _not_printed(each.prints, said[number])
            found += [f"line {each.line}: {line!r} is not in\n{said[number]}" for line in missing]
    return found


def _parts(output: str) -> Iterator[tuple[int, str]]:
    for part in output.split(_MARK)[1:]:
        number, _, said = part.partition("\n")
        yield int(number), said


def _not_printed(expected: str, said: str) -> list[str]:
    """Lines that did not come, or not in this order."""
    rest = iter([_plain(line) for line in said.splitlines()])
    missing = []
    for line in filter(str.strip, expected.splitlines()):
        pattern = re.compile(".*".join(map(re.escape, _plain(line).split("…"))))
        if not any(pattern.search(each) for each in rest):
            missing.append(line)
    return missing


def _plain(line: str) -> str:
    return " ".join(line.split())


def follow(asked: Sequence[Block], *, folder: Path, timeout_s: float) -> tuple[int, str]:
    """Run them in `folder`, which is empty but for a home that has Kafka's jars: the exit code, and
    all that was printed. `TOO_LONG` is the code where `timeout_s` was not enough."""
    home, here, scratch = (folder / name for name in ("home", "here", "t"))
    for each in (here, scratch):
        each.mkdir(parents=True)
    _fill(home / ".cache" / "mm2")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "PATH": path,
        "TERM": "dumb",
        "COLUMNS": "160",
    }
    given |= {key: os.environ[key] for key in ("JAVA_HOME", "LANG") if key in os.environ}
    (folder / "guide.sh").write_text(script(asked))
    guide = shlex.quote(str(folder / "guide.sh"))
    inside = f"mount --make-rprivate / && {loopback.UP} && exec bash {guide}"
    argv = ["unshare", "--mount", "--mount-proc", "--pid", "--net", "--fork", "--kill-child"]
    with (folder / "output").open("wb") as output:
        child = processes.start([*argv, "sh", "-c", inside], output=output, env=given, cwd=here)
    code = child.wait(timeout_s)
    if code is None:
        child.kill()
    said = (folder / "output").read_text(errors="replace")
    return TOO_LONG if code is None else code, said


def _fill(cache: Path) -> None:
    """With what a first run would fetch or make."""
    cache.mkdir(parents=True)
    for each in user_cache.folder().iterdir():
        if each.name.startswith("kafka-4"):
            (shutil.copytree if each.is_dir() else shutil.copy2)(each, cache / each.name)
