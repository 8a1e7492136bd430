"""Finds the regular expressions of the product and measures them on text chosen to be slow.

`in_source` lists each constant expression with the methods that the module calls on it. `attacks`
derives texts from an expression's own parts: each repeated part, repeated many times, followed by
something that does not match. `slow` is the first text that takes more processor time than a
linear expression can need. Python holds the interpreter lock while it matches, so one slow match
stops every thread of a process.
"""

from __future__ import annotations

import ast
import pathlib
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

SIZES = (1_000, 64_000)
LIMIT_S = 0.4
"""Processor time for one text; a linear expression needs a few milliseconds for the longest."""
METHODS = ("fullmatch", "match", "search", "findall", "finditer", "sub", "subn", "split")
_PACKAGES = ("connect_runtime", "mm2")
_NOTHING_MATCHES = ("", "\x00", "!", "x", "\n")
_PIECES_MAX = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One expression; `text` is None unless it is a constant. `methods` are those called on it."""

    place: str
    name: str
    text: str | bytes | None
    flags: int
    methods: frozenset[str]


class _TooSlowError(BaseException):
    pass


def in_source(root: pathlib.Path) -> list[Use]:
    """Every call of the module `re` in both packages below `root`."""
    found = []
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            found += in_module(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    return found


def in_module(source: str, place: str) -> list[Use]:
    tree = ast.parse(source)
    called: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            called.setdefault(name, set()).add(node.attr)
    names = {
        id(node.value): target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _function(node.func) in ("compile", *METHODS):
            function = _function(node.func)
            name = names.get(id(node), "")
            methods = called.get(name) if function == "compile" else {function}
            found.append(
                Use(
                    place=f"{place}:{node.lineno}",
                    name=name or ast.unparse(node.args[0]),
                    text=_constant(node.args[0]),
                    flags=_flags(node),
                    methods=frozenset(methods or {"fullmatch", "search", "sub"}),
                )
            )
    return found


def _function(function: ast.expr) -> str:
    """The function of `re` that is called, "" for any other; `kinds.matching` matches in full."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        if function.value.id == "re":
            return function.attr
        return "fullmatch" if (function.value.id, function.attr) == ("kinds", "matching") else ""
    return ""


def _constant(node: ast.expr) -> str | bytes | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (str, bytes)) else None


def _flags(node: ast.Call) -> int:
    flags = 0
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(getattr(re, each.attr, 0), re.RegexFlag):
            flags |= getattr(re, each.attr)
    return flags


def attacks(text: str | bytes, flags: int = 0) -> Iterator[tuple[str, str, str]]:
    """Prefix, pump and ending of texts that may be slow."""
    readable = text.decode("latin-1") if isinstance(text, bytes) else text
    whole = parser.parse(readable, flags)
    pieces: dict[tuple[str, str], None] = {}
    for prefix, item in _repeated(list(whole), ""):
        for pump in _samples(item):
            if pump:
                pieces[prefix, pump] = None
                pieces["", prefix + pump] = None
    for pump in _samples(whole):
        pieces["", pump] = None
    for pump in (" ", "0", "9", "a", '"', "\\", '\\"', "/*", "${", "["):
        if re.search(re.escape(pump[0]), readable) or pump in " 09a":
            pieces["", pump] = None
    for prefix, pump in list(pieces)[: 2 * _PIECES_MAX]:
        for ending in _NOTHING_MATCHES:
            if pump:
                yield prefix, pump, ending


def _repeated(items: list[Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Each repeated part, with a text that leads to it; and two neighbours as one."""
    for at, (op, argument) in enumerate(items):
        for inner in _children(op, argument):
            yield from _repeated(list(inner), prefix)
        if str(op).endswith("REPEAT"):
            yield prefix, argument[2]
            if at + 1 < len(items):
                yield prefix, [*argument[2], items[at + 1]]
        prefix += next(_samples([(op, argument)]), "")


def _children(op: Any, argument: Any) -> list[Any]:
    if str(op).endswith("REPEAT"):
        return [argument[2]]
    if op is constants.SUBPATTERN:
        return [argument[3]]
    if op is constants.ATOMIC_GROUP:
        return [argument]
    if op is constants.BRANCH:
        return list(argument[1])
    if op in (constants.ASSERT, constants.ASSERT_NOT):
        return [argument[1]]
    return []


def _samples(items: Any) -> Iterator[str]:
    """A few texts that the parts match, lookaround and references left out."""
    texts = [""]
    for op, argument in items:
        texts = [text + one for text in texts for one in _of_part(op, argument)][:8]
    yield from dict.fromkeys(texts)


def _of_part(op: Any, argument: Any) -> list[str]:
    if op is constants.LITERAL:
        return [chr(argument)]
    if op is constants.NOT_LITERAL:
        return ["a" if argument != ord("a") else "b"]
    if op is constants.ANY:
        return ["a"]
    if op is constants.IN:
        return _of_class(argument)
    if op in (constants.ASSERT, constants.ASSERT_NOT, constants.AT, constants.GROUPREF):
        return [""]
    if str(op).endswith("REPEAT"):
        least, _, inner = argument
        return [each * max(least, 1) for each in _samples(inner)][:3] + ([""] if not least else [])
    samples = [each for inner in _children(op, argument) for each in _samples(inner)]
    return samples[:4] or [""]


def _of_class(items: Any) -> list[str]:
    inverted = items[0][0] is constants.NEGATE
    found = []
    for op, argument in items:
        if op is constants.LITERAL:
            found.append(chr(argument))
        elif op is constants.RANGE:
            found.append(chr(argument[0]))
        elif op is constants.CATEGORY:
            found += {"DIGIT": ["7"], "SPACE": [" "], "WORD": ["w"]}.get(
                str(argument).removeprefix("CATEGORY_"), ["-"]
            )
    if inverted:
        return [each for each in ("a", " ", ":", "\\", '"') if each not in found][:2]
    return found[:3]


def slow(text: str | bytes, flags: int, methods: frozenset[str]) -> str | None:
    """Describes the first text that takes too long; None if there is none."""
    compiled: Any = re.compile(text, flags)
    for prefix, pump, ending in attacks(text, flags):
        for size in SIZES:
            attack: str | bytes = prefix + pump * (size // len(pump)) + ending
            if isinstance(text, bytes):
                assert isinstance(attack, str)
                attack = attack.encode("latin-1", "replace")
            for method in sorted(methods):
                if _takes_too_long(compiled, method, attack):
                    return (
                        f"{method} takes more than {LIMIT_S} s of processor time for "
                        f"{prefix!r} + {pump!r} * {size // len(pump)} + {ending!r}"
                    )
    return None


def _takes_too_long(compiled: Any, method: str, attack: str | bytes) -> bool:
    empty = attack[:0]
    match method:
        case "sub" | "subn":
            arguments: tuple[Any, ...] = (empty, attack)
        case _:
            arguments = (attack,)

    def stop(*_: object) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    start_s = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 2 * LIMIT_S)
    try:
        found = getattr(compiled, method)(*arguments)
        if method == "finditer":
            list(found)
    except _TooSlowError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return time.thread_time() - start_s > LIMIT_S


if __name__ == "__main__":
    for use in in_source(pathlib.Path(sys.argv[1])):
        if use.text is None:
            sys.stdout.write(f"{use.place} {use.name}: not constant\n")
            continue
        began_s = time.thread_time()
        verdict = slow(use.text, use.flags, use.methods)
        took_s = time.thread_time() - began_s
        if verdict or took_s > 1:
            sys.stdout.write(f"{use.place} {use.name} {took_s:.1f} s: {verdict}\n")
