"""Matches regular expressions from configurations in bounded time (no catastrophic backtracking).

The expressions are Java's; `compile_pattern` rejects what Python's `re` would interpret
differently. A pattern always has to match the whole name.

`re` backtracks while it holds the interpreter lock: `(a+)+b` takes hours for 40 characters, and
every thread waits. So the steps that `re` could need are estimated from the parsed expression,
and `re` is used only if they are few. Other expressions are matched by following all
alternatives at once (Thompson's construction): the steps are at most the size of the expression
times the length of the name, and the result is the same. Costly lookaheads are followed in the
same way. Lookbehind, atomic groups and possessive quantifiers are left to `re`, and their steps
are counted. Backreferences cannot be followed in this way: an expression that needs too many
steps with one is rejected.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from connect_runtime.base.errors import FatalError

NAME_LENGTH_MAX = 256
"""Names of topics have 249 characters at most; those of groups may have more."""
STEPS_MAX = 2_000_000
"""Of one match by `re`: some 30 ms."""
VISITS_MAX = 1_000_000
"""States that one match without `re` visits, at most: about a second; other threads run."""
PATTERN_LENGTH_MAX = 16 * 1024
"""Characters of one expression."""
_STATES_MAX = 1_000
_LOOKAHEAD_STEP_RESERVE = STEPS_MAX // 2
"""Lookaheads are left to `re` until so many steps remain for the whole match."""
_LOOKAHEAD_STATES_MAX = 250_000
"""State and place in the name, of lookaheads that are followed without `re`: some 50 MB."""
_PARTS_MAX = 100_000
"""The most parts of an expression that are turned into states; a repeated part counts each time."""
_ITEMS_PER_STEP = 8
_UNBOUNDED_COST = 10**18
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


class MatchLimitError(FatalError):
    """One name would take too many steps."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A compiled expression; `text` is it as it was written."""

    text: str
    _compiled: re.Pattern[str] = field(repr=False, compare=False)
    _parsed: Any = field(repr=False, compare=False)
    _steps: dict[int, int] = field(repr=False, compare=False, default_factory=dict)

    def fullmatch(self, name: str, *, key: str = "") -> bool:
        """Does the whole name match? Raises `MatchLimitError`, which names `key`, if it would take
        too long."""
        found = self._found(name)
        if found is None:
            begin = f"{name[:_SHOWN_MAX]}…" if len(name) > _SHOWN_MAX else name
            raise MatchLimitError(
                f"{f'{key}: ' if key else ''}matching the regular expression {self.text!r} against "
                f"the name {begin!r} of {len(name)} characters would take too many steps: write "
                "the expression without repetitions inside repetitions"
            )
        return found

    def _found(self, name: str) -> bool | None:
        """None if it would take too long, or `re` has a defect that shows with this name."""
        try:
            if self.steps(len(name)) <= STEPS_MAX:
                return self._compiled.fullmatch(name) is not None
            program = _build_nfa(self.text)
            return None if program is None else program.fullmatch(name)
        except (RecursionError, SystemError):  # CPython: "The span of capturing group is wrong"
            return None

    def steps(self, length: int) -> int:
        """At most so many does `re` need for a name of this length; rounded up."""
        rounded = max(NAME_LENGTH_MAX, 1 << (length - 1).bit_length())
        if rounded not in self._steps:
            self._steps[rounded] = _estimate_cost(self._parsed, rounded)[1]
        return self._steps[rounded]


def compile_pattern(pattern: str) -> BoundedPattern:
    """Raises `PatternError` for what Python cannot match as Java would, or not in bounded time."""
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise PatternError(
            f"{pattern[:_SHOWN_MAX]}…",
            f"the expression has {len(pattern):,} characters; allowed: at most "
            f"{PATTERN_LENGTH_MAX:,}",
        )
    return _compile_cached(pattern)


@functools.lru_cache(maxsize=4096)
def _compile_cached(pattern: str) -> BoundedPattern:
    _refuse_java_only(pattern)
    try:
        # ASCII: Java's \d, \w, \s and (?i) know ASCII alone unless told otherwise.
        parsed = _parse_pattern(pattern)
        made = BoundedPattern(pattern, _compiler.compile(parsed, parsed.state.flags), parsed)
        is_bounded = made.steps(NAME_LENGTH_MAX) <= STEPS_MAX
        if not is_bounded:
            program = _build_nfa(pattern)
            is_bounded = program is not None and program.left_to_re(NAME_LENGTH_MAX) <= STEPS_MAX
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise PatternError(pattern, f"not a regular expression: {error}") from None
    if not is_bounded:
        raise PatternError(
            pattern,
            f"may take more than {STEPS_MAX:,} steps for one name: write it without "
            "backreferences, atomic groups and possessive repetitions, or with fewer and smaller "
            "repetitions",
        )
    return made


def compile_literal(name: str) -> BoundedPattern:
    """The expression that only `name` matches."""
    return _compile_cached(re.escape(name))


def _parse_pattern(pattern: str) -> Any:
    """Groups capture only where a backreference needs them: `re` is wrong about some captures."""
    parsed = _parser.parse(pattern, re.ASCII)
    if not _has_backreference(parsed):
        _remove_captures(parsed)
        parsed.state.groupwidths, parsed.state.groupdict = [None], {}
    return parsed


def _remove_captures(parsed: Any) -> None:
    for number, (op, argument) in enumerate(parsed):
        if op is _constants.SUBPATTERN:
            parsed[number] = (op, (None, *argument[1:]))
        for inner in _subpatterns(op, argument):
            _remove_captures(inner)


def _subpatterns(op: Any, argument: Any) -> Sequence[Any]:
    """The expressions inside a part."""
    if op is _constants.BRANCH:
        return list(argument[1])
    if op is _constants.GROUPREF_EXISTS:
        return [each for each in argument[1:] if each is not None]
    if op is _constants.ATOMIC_GROUP:
        return [argument]
    if op is _constants.SUBPATTERN:
        return [argument[3]]
    if op in _REPEAT_OPS:
        return [argument[2]]
    if op in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [argument[1]]
    return []


def _estimate_cost(items: Any, length: int) -> tuple[int, int]:
    """How many ways `re` may try to match the parts one after another, and how many steps that
    takes at most, for a name of this length."""
    ways, steps = 1, 1
    for op, argument in items:
        own_ways, own_steps = _estimate_part_cost(op, argument, length)
        steps += ways * own_steps
        ways *= own_ways
        if ways >= _UNBOUNDED_COST or steps >= _UNBOUNDED_COST:
            return _UNBOUNDED_COST, _UNBOUNDED_COST
    return ways, steps


def _estimate_part_cost(op: Any, argument: Any, length: int) -> tuple[int, int]:
    if op in _REPEAT_OPS:
        least, most, inner = argument
        ways, steps = _estimate_cost(inner, length)
        times = min(int(most), max(length, int(least))) + 1
        if ways > 1:  # each repetition multiplies them
            both = _UNBOUNDED_COST if times > 60 else min(ways**times, _UNBOUNDED_COST)
            return (1 if op is _constants.POSSESSIVE_REPEAT else both), min(
                both * steps, _UNBOUNDED_COST
            )
        return (1 if op is _constants.POSSESSIVE_REPEAT else times), min(
            times * steps, _UNBOUNDED_COST
        )
    if op in (_constants.ASSERT, _constants.ASSERT_NOT):
        return 1, _estimate_cost(argument[1], length)[1]
    if op is _constants.ATOMIC_GROUP:
        return 1, _estimate_cost(argument, length)[1]
    if op is _constants.SUBPATTERN:
        return _estimate_cost(argument[3], length)
    if op is _constants.GROUPREF:
        return 1, length
    if op is _constants.IN:
        return 1, 1 + len(argument) // _ITEMS_PER_STEP
    costs = [_estimate_cost(each, length) for each in _subpatterns(op, argument)]
    return sum(ways for ways, _ in costs) or 1, sum(steps for _, steps in costs) + 1


_REPEAT_OPS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
_SINGLE_END_OPS = (
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
class _NfaState:
    """A state. If `match` succeeds, matching continues behind its end with the states `following`;
    a state without `match` continues with them at once.

    `ahead`: the first and last state of a lookahead's inside; None if only `match` can decide it.
    """

    match: Callable[[str, int], re.Match[str] | None] | None
    part: Any
    following: tuple[int, ...]
    ahead: tuple[int, int] | None = None


class _TooManyStepsError(Exception):
    """One match would take too long."""


class _Nfa:
    """The states of one expression; 0 is the end."""

    def __init__(self, parsed: Any) -> None:
        self._state = parsed.state
        self._compiled: dict[str, Callable[[str, int], re.Match[str] | None]] = {}
        self._steps = [_NfaState(None, None, ())]
        self._parts = _PARTS_MAX
        self._first = self._sequence(list(parsed), parsed.state.flags, 0)

    def left_to_re(self, length: int) -> int:
        """The most steps that one part needs that only `re` can match."""
        parts = [each.part for each in self._steps if each.match is not None and each.ahead is None]
        return max((_estimate_cost([part], length)[1] for part in parts), default=0)

    def fullmatch(self, name: str) -> bool | None:
        """None if parts that are left to `re` could need too many steps."""
        try:
            return _NfaMatch(self._steps, name).reaches_end(self._first)
        except _TooManyStepsError:
            return None

    def _add(self, step: _NfaState) -> int:
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
        self._parts -= 1
        if self._parts < 0:
            raise _UnsupportedError
        if op is _constants.SUBPATTERN:
            _, more, fewer, inner = argument
            if more & _parser.TYPE_FLAGS:
                flags &= ~_parser.TYPE_FLAGS
            return self._sequence(list(inner), (flags | more) & ~fewer, following)
        if op is _constants.BRANCH:
            begins = [self._sequence(list(each), flags, following) for each in argument[1]]
            return self._add(_NfaState(None, None, tuple(begins)))
        if op in _SINGLE_END_OPS:
            part = (op, argument)
            ahead = None
            if op in (_constants.ASSERT, _constants.ASSERT_NOT) and argument[0] > 0:
                ahead = self._ahead(list(argument[1]), flags)
            return self._add(_NfaState(self._match(part, flags), part, (following,), ahead))
        if op in _REPEAT_OPS:
            least, most, inner = argument
            return self._repeated(list(inner), int(least), most, flags, following)
        raise _UnsupportedError

    def _ahead(self, inner: Sequence[Any], flags: int) -> tuple[int, int] | None:
        """Where the inside of a lookahead begins and ends; None where it is left to `re`."""
        count = len(self._steps)
        try:
            end = self._add(_NfaState(None, None, ()))
            return self._sequence(inner, flags, end), end
        except _UnsupportedError:
            del self._steps[count:]
            return None

    def _repeated(
        self, inner: Sequence[Any], least: int, most: Any, flags: int, following: int
    ) -> int:
        begin = following
        if most is _constants.MAXREPEAT:
            begin = self._add(_NfaState(None, None, ()))
            once = self._sequence(inner, flags, begin)
            self._steps[begin] = _NfaState(None, None, (once, following))
        else:
            for _ in range(int(most) - least):
                once = self._sequence(inner, flags, begin)
                if once == begin:  # empty: repeated it is the same
                    break
                begin = self._add(_NfaState(None, None, (once, following)))
        for _ in range(least):
            once = self._sequence(inner, flags, begin)
            if once == begin:
                break
            begin = once
        return begin

    def _match(self, part: Any, flags: int) -> Callable[[str, int], re.Match[str] | None]:
        name = f"{flags} {part}"
        if name not in self._compiled:
            if _has_backreference(part):
                raise _UnsupportedError
            # The compiler adds the flags of the state: those of the parsed one are global.
            state = _parser.State()
            state.flags = flags
            state.groupdict = self._state.groupdict
            state.groupwidths = self._state.groupwidths
            alone = _parser.SubPattern(state, [part])
            self._compiled[name] = _compiler.compile(alone, flags).match
        return self._compiled[name]


class _NfaMatch:
    """One name followed through the states."""

    def __init__(self, steps: Sequence[_NfaState], name: str) -> None:
        self._steps = steps
        self._name = name
        self._costs: dict[int, int] = {}
        self._left, self._visits = STEPS_MAX, VISITS_MAX
        self._dead: set[tuple[int, int]] = set()
        self._alive: set[tuple[int, int]] = set()

    def reaches_end(self, first: int) -> bool:
        """Does a way lead from state `first` through the whole name? Raises
        `_TooManyStepsError`."""
        waiting: list[set[int]] = [set() for _ in range(len(self._name) + 1)]
        waiting[0].add(first)
        for at, reached in enumerate(waiting):
            todo = list(reached)
            while todo:
                number = todo.pop()
                end = self._end(number, at)
                if end is None:
                    continue
                for following in self._steps[number].following:
                    if following not in waiting[end]:
                        waiting[end].add(following)
                        if end == at:
                            todo.append(following)
        return 0 in waiting[-1]

    def _end(self, number: int, at: int) -> int | None:
        """Where the state ends that is reached here; None if it does not match."""
        self._visits -= 1
        if self._visits < 0:
            raise _TooManyStepsError
        step = self._steps[number]
        if step.match is None:
            return at
        if number not in self._costs:
            self._costs[number] = _estimate_cost([step.part], len(self._name))[1]
        left = self._left - self._costs[number]
        if step.ahead is not None and left < _LOOKAHEAD_STEP_RESERVE:
            is_found = self._looks_ahead(*step.ahead, at)
            return at if is_found == (step.part[0] is _constants.ASSERT) else None
        self._left = left
        if left < 0:
            raise _TooManyStepsError
        found = step.match(self._name, at)
        return None if found is None else found.end()

    def _looks_ahead(self, first: int, last: int, at: int) -> bool:
        """Does a way lead from `first`, at this character, to `last` at any?

        Each pair of state and place leads to one `last` only, so what is found out of it holds
        wherever the same lookahead is asked again.
        """
        came_from: dict[tuple[int, int], tuple[int, int] | None] = {(first, at): None}
        todo = [(first, at)]
        while todo:
            place = todo.pop()
            if place[0] == last or place in self._alive:
                back: tuple[int, int] | None = place
                while back is not None:
                    self._alive.add(back)
                    back = came_from[back]
                return True
            if place in self._dead:
                continue
            end = self._end(*place)
            if end is None:
                continue
            for following in self._steps[place[0]].following:
                if len(came_from) + len(self._dead) + len(self._alive) > _LOOKAHEAD_STATES_MAX:
                    raise _TooManyStepsError
                if (following, end) not in came_from:
                    came_from[following, end] = place
                    todo.append((following, end))
        self._dead.update(came_from)
        return False


def _has_backreference(part: Any) -> bool:
    """Does a backreference occur in the part?"""
    if isinstance(part, (tuple, list, _parser.SubPattern)):
        return any(_has_backreference(each) for each in part)
    return part is _constants.GROUPREF or part is _constants.GROUPREF_EXISTS


@functools.lru_cache(maxsize=1024)
def _build_nfa(pattern: str) -> _Nfa | None:
    """None for what only `re` can match, and for what is too large."""
    try:
        return _Nfa(_parse_pattern(pattern))
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
