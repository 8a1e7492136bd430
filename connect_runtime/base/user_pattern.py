r"""Regular expressions from configurations, matched in bounded time against foreign names.

The expressions are Java's; what Python's `re` means differently, `compile_pattern` refuses by name.
A name is always matched whole.

`re` backtracks while it holds the interpreter lock: `(a+)+b` takes hours for 40 characters, and
every thread of the process waits. So the steps that `re` could need are estimated from the parsed
expression, and it matches only where they are few. Other expressions are matched by following all
alternatives at once, character by character (Thompson's construction): the steps are at most the
size of the expression times the length of the name, and the result is the same. Lookahead,
lookbehind and atomic groups inside are left to `re`, and their steps counted. Only backreferences
cannot be followed in this way: an expression that needs too many steps with one is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from connect_runtime.base import errors

NAME_LENGTH = 256
"""Names of topics have 249 characters at most; those of groups may have more."""
STEPS_MAX = 2_000_000
"""Of one match by `re`: some 30 ms."""
VISITS_MAX = 1_000_000
"""States that one match without `re` visits, at most: about a second; other threads run."""
_STATES_MAX = 1_000
_MANY = 10**18
_SHOWN_MAX = 80

# What Java's dialect has and Python's has not, or means otherwise.
_JAVA_ESCAPES = {
    "p": r"\p{…} classes: write the characters, such as [a-zA-Z] for \p{Alpha}",
    "P": r"\P{…} classes: write the characters, such as [^a-zA-Z] for \P{Alpha}",
    "Q": r"\Q…\E quoting: escape each special character with a backslash",
    "E": r"\Q…\E quoting: escape each special character with a backslash",
    "h": r"\h: topic and group names rarely hold blanks; write [ \t]",
    "H": r"\H: write [^ \t]",
    "R": r"\R: write [\r\n]",
    "X": r"\X: write . for one character",
    "G": r"\G: a name is always matched whole, leave it out",
    "z": r"\z: a name is always matched whole, leave it out",
    "k": r"\k<name>: write (?P=name)",
    "e": r"\e: write \x1b",
    "c": r"\cX: write \xhh",
}
_JAVA_GROUP = re.compile(r"\(\?<[a-zA-Z]")


class PatternError(ValueError):
    """A regular expression that cannot be used. Says which one and why."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern!r}: {reason}")
        self.pattern = pattern
        self.reason = reason


class MatchLimitError(errors.FatalError):
    """One name would take too many steps."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled expression; `text` is it as it was written."""

    text: str
    _compiled: re.Pattern[str] = field(repr=False, compare=False)
    _parsed: Any = field(repr=False, compare=False)
    _steps: dict[int, int] = field(repr=False, compare=False, default_factory=dict)

    def fullmatch(self, name: str, *, key: str = "") -> bool:
        """Does the whole name match? Raises `MatchLimitError`, which names `key`, if it would take
        too long."""
        if self.steps(len(name)) <= STEPS_MAX:
            return self._compiled.fullmatch(name) is not None
        program = _program(self.text)
        found = None if program is None else program.fullmatch(name)
        if found is None:
            begin = f"{name[:_SHOWN_MAX]}…" if len(name) > _SHOWN_MAX else name
            raise MatchLimitError(
                f"{f'{key}: ' if key else ''}matching the regular expression {self.text!r} against "
                f"the name {begin!r} of {len(name)} characters would take too many steps: write "
                "the expression without repetitions inside repetitions"
            )
        return found

    def steps(self, length: int) -> int:
        """At most so many does `re` need for a name of this length; rounded up."""
        rounded = max(NAME_LENGTH, 1 << (length - 1).bit_length())
        if rounded not in self._steps:
            self._steps[rounded] = _cost(self._parsed, rounded)[1]
        return self._steps[rounded]


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Pattern:
    """Raises `PatternError` for what Python cannot match as Java would, or not in bounded time."""
    _refuse_java_only(pattern)
    try:
        # ASCII: Java's \\d, \\w, \\s and (?i) know ASCII alone unless told otherwise.
        compiled = re.compile(pattern, re.ASCII)
        made = Pattern(pattern, compiled, _parser.parse(pattern, re.ASCII))
        is_bounded = made.steps(NAME_LENGTH) <= STEPS_MAX or _program(pattern) is not None
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise PatternError(pattern, f"not a regular expression: {error}") from None
    if not is_bounded:
        raise PatternError(
            pattern,
            f"may take more than {STEPS_MAX:,} steps for one name: write it without "
            "backreferences, or with fewer and smaller repetitions",
        )
    return made


def literal(name: str) -> Pattern:
    """The expression that only `name` matches."""
    return compile_pattern(re.escape(name))


def _cost(items: Any, length: int) -> tuple[int, int]:
    """How many ways `re` may try to match the parts one after another, and how many steps that
    takes at most, for a name of this length."""
    ways, steps = 1, 1
    for op, argument in items:
        own_ways, own_steps = _cost_of_part(op, argument, length)
        steps += ways * own_steps
        ways *= own_ways
        if ways >= _MANY or steps >= _MANY:
            return _MANY, _MANY
    return ways, steps


def _cost_of_part(op: Any, argument: Any, length: int) -> tuple[int, int]:
    if op in _REPEATS:
        least, most, inner = argument
        ways, steps = _cost(inner, length)
        times = min(int(most), max(length, int(least))) + 1
        if ways > 1:  # each repetition multiplies them
            both = _MANY if times > 60 else min(ways**times, _MANY)
            return (1 if op is _constants.POSSESSIVE_REPEAT else both), min(both * steps, _MANY)
        return (1 if op is _constants.POSSESSIVE_REPEAT else times), min(times * steps, _MANY)
    if op in (_constants.ASSERT, _constants.ASSERT_NOT):
        return 1, _cost(argument[1], length)[1]
    if op is _constants.ATOMIC_GROUP:
        return 1, _cost(argument, length)[1]
    if op is _constants.SUBPATTERN:
        return _cost(argument[3], length)
    if op is _constants.GROUPREF:
        return 1, length
    inner_parts: Sequence[Any] = ()
    if op is _constants.BRANCH:
        inner_parts = argument[1]
    elif op is _constants.GROUPREF_EXISTS:
        inner_parts = [each for each in argument[1:] if each is not None]
    costs = [_cost(each, length) for each in inner_parts]
    return sum(ways for ways, _ in costs) or 1, sum(steps for _, steps in costs) + 1


_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
_SIMPLE = (
    _constants.LITERAL,
    _constants.NOT_LITERAL,
    _constants.ANY,
    _constants.IN,
    _constants.AT,
    _constants.ASSERT,
    _constants.ASSERT_NOT,
    _constants.ATOMIC_GROUP,
    _constants.POSSESSIVE_REPEAT,
)
"""What has one end at each place where it matches: `re` finds it."""


class _UnsupportedError(Exception):
    """The expression has a backreference, or too many states."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A state: where `match` succeeds, on from its end; without it, both ways."""

    match: Callable[[str, int], re.Match[str] | None] | None
    part: Any
    following: tuple[int, ...]


class _Program:
    """The states of one expression; 0 is the end."""

    def __init__(self, parsed: Any, flags: int) -> None:
        self._state = parsed.state
        self._compiled: dict[str, Callable[[str, int], re.Match[str] | None]] = {}
        self._steps = [_Step(None, None, ())]
        self._first = self._sequence(list(parsed), flags, 0)

    def fullmatch(self, name: str) -> bool | None:
        """None if parts that are left to `re` could need too many steps."""
        waiting: list[set[int]] = [set() for _ in range(len(name) + 1)]
        waiting[0].add(self._first)
        costs: dict[int, int] = {}
        left, visits = STEPS_MAX, VISITS_MAX
        for at, reached in enumerate(waiting):
            todo = list(reached)
            while todo:
                number = todo.pop()
                visits -= 1
                if visits < 0:
                    return None
                step = self._steps[number]
                end = at
                if step.match is not None:
                    if number not in costs:
                        costs[number] = _cost([step.part], len(name))[1]
                    left -= costs[number]
                    if left < 0:
                        return None
                    found = step.match(name, at)
                    if found is None:
                        continue
                    end = found.end()
                for following in step.following:
                    if following not in waiting[end]:
                        waiting[end].add(following)
                        if end == at:
                            todo.append(following)
        return 0 in waiting[-1]

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= _STATES_MAX:
            raise _UnsupportedError
        self._steps.append(step)
        return len(self._steps) - 1

    def _sequence(self, items: Sequence[Any], flags: int, following: int) -> int:
        """The state at which the parts begin that end at `following`."""
        for op, argument in reversed(items):
            following = self._part(op, argument, flags, following)
        return following

    def _part(self, op: Any, argument: Any, flags: int, following: int) -> int:
        if op is _constants.SUBPATTERN:
            _, more, fewer, inner = argument
            return self._sequence(list(inner), (flags | more) & ~fewer, following)
        if op is _constants.BRANCH:
            begins = [self._sequence(list(each), flags, following) for each in argument[1]]
            return self._add(_Step(None, None, tuple(begins)))
        if op in _SIMPLE:
            part = (op, argument)
            return self._add(_Step(self._match(part, flags), part, (following,)))
        if op in _REPEATS:
            least, most, inner = argument
            return self._repeated(list(inner), int(least), most, flags, following)
        raise _UnsupportedError

    def _repeated(
        self, inner: Sequence[Any], least: int, most: Any, flags: int, following: int
    ) -> int:
        begin = following
        if most is _constants.MAXREPEAT:
            begin = self._add(_Step(None, None, ()))
            once = self._sequence(inner, flags, begin)
            self._steps[begin] = _Step(None, None, (once, following))
        else:
            for _ in range(int(most) - least):
                once = self._sequence(inner, flags, begin)
                begin = self._add(_Step(None, None, (once, following)))
        for _ in range(least):
            begin = self._sequence(inner, flags, begin)
        return begin

    def _match(self, part: Any, flags: int) -> Callable[[str, int], re.Match[str] | None]:
        name = f"{flags} {part}"
        if name not in self._compiled:
            if _refers(part):
                raise _UnsupportedError
            alone = _parser.SubPattern(self._state, [part])
            self._compiled[name] = _compiler.compile(alone, flags).match
        return self._compiled[name]


def _refers(part: Any) -> bool:
    """Does a backreference occur in the part?"""
    if isinstance(part, (tuple, list, _parser.SubPattern)):
        return any(_refers(each) for each in part)
    return part is _constants.GROUPREF or part is _constants.GROUPREF_EXISTS


@functools.lru_cache(maxsize=1024)
def _program(pattern: str) -> _Program | None:
    """None for what only `re` can match, and for what is too large."""
    parsed = _parser.parse(pattern, re.ASCII)
    try:
        return _Program(parsed, parsed.state.flags)
    except _UnsupportedError:
        return None


def _refuse_java_only(pattern: str) -> None:
    in_class = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            _refuse_java_escape(pattern, pattern[at + 1 : at + 2])
            at += 2
            continue
        if in_class:
            if char == "[" or pattern.startswith("&&", at):
                raise PatternError(
                    pattern, "a class inside [...] and && are Java's alone: write one plain [...]"
                )
            in_class = char != "]"
        elif char == "[":
            in_class = True
            at += 1 + pattern.startswith("^", at + 1)
            if pattern.startswith("]", at):
                raise PatternError(
                    pattern, r"a ] that opens a class means different things: write \]"
                )
            continue
        elif _JAVA_GROUP.match(pattern, at):
            raise PatternError(pattern, "a Java group name: write (?P<name>...) or (?:...)")
        at += 1


def _refuse_java_escape(pattern: str, escaped: str) -> None:
    if escaped in _JAVA_ESCAPES:
        raise PatternError(pattern, f"Python has no {_JAVA_ESCAPES[escaped]}")
