"""Matches regular expressions from configurations in bounded time (no catastrophic backtracking).

The expressions use Java's syntax. `compile_pattern` rejects syntax that Python's `re` would
interpret differently. A pattern must match the whole name.

`re` backtracks while it holds the interpreter lock: `(a+)+b` takes hours for 40 characters and
blocks every thread. Therefore, the number of steps that `re` could need is estimated from the
parsed expression, and `re` is used only if the number is small. Other expressions are run as an NFA
(nondeterministic finite automaton, Thompson's construction), which follows all alternatives at the
same time. The number of steps is then at most the size of the expression times the length of the
name, and the result is the same. Expensive lookaheads are run in the same way. Lookbehind, atomic
groups and possessive quantifiers are matched by `re`, and their steps are counted. An NFA cannot
follow backreferences, so an expression with backreferences that needs too many steps is rejected.
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
"""Minimum name length for which `re` steps are estimated. For a longer name, the estimate uses the
next power of two. Topic names have at most 249 characters; group names may have more."""
STEPS_MAX = 2_000_000
"""Maximum number of `re` steps for one match (about 30 ms)."""
VISITS_MAX = 1_000_000
"""Maximum number of NFA states visited in one match (about a second, while other threads can
run)."""
PATTERN_LENGTH_MAX = 16 * 1024
"""Maximum length of a regular expression, in characters."""
CLASS_CHARACTERS_MAX = 2_000_000
"""Maximum number of characters that all character classes of an expression cover together. `re`
lists each character when it compiles the expression (about 0.1 s at this limit)."""
_STATES_MAX = 1_000
_LOOKAHEAD_STEP_RESERVE = STEPS_MAX // 2
"""Number of `re` steps that lookaheads must leave of `STEPS_MAX`. If `re` would leave fewer steps,
the NFA matches the lookahead instead."""
_LOOKAHEAD_STATES_MAX = 250_000
"""Maximum number of (state, position) pairs kept for lookaheads (about 50 MB)."""
_PARTS_MAX = 100_000
"""Maximum number of expression parts translated to NFA states. A repeated part counts once per
repetition."""
_ITEMS_PER_STEP = 8
_UNBOUNDED_COST = 10**18
_SHORT_PATTERN_MAX = 256
_SHOWN_MAX = 80

# Java syntax that Python lacks or interprets differently, with the replacement to suggest.
_JAVA_ESCAPES = {
    "p": r"\p{…} classes: write the characters, such as [a-zA-Z] for \p{Alpha}",
    "P": r"\P{…} classes: write the characters, such as [^a-zA-Z] for \P{Alpha}",
    "Q": r"\Q…\E quoting: escape each special character with a backslash",
    "E": r"\Q…\E quoting: escape each special character with a backslash",
    "h": r"\h: topic and group names rarely contain blanks; write [ \t]",
    "H": r"\H: write [^ \t]",
    "R": r"\R: write [\r\n]",
    "X": r"\X: write . for one character",
    "G": r"\G: omit \G, because a name is always matched as a whole",
    "z": r"\z: omit \z, because a name is always matched as a whole",
    "k": r"\k<name>: write (?P=name)",
    "e": r"\e: write \x1b",
    "c": r"\cX: write \xhh",
}
_JAVA_GROUP = re.compile(r"\(\?<[a-zA-Z]")


class PatternError(ValueError):
    """Raised if a regular expression cannot be used. The message quotes it and states the
    reason."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern!r}: {reason}")
        self.pattern = pattern
        self.reason = reason


class MatchLimitError(FatalError):
    """Raised if matching one name would take too many steps."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A compiled regular expression; `text` is the expression as configured."""

    text: str
    _compiled: re.Pattern[str] = field(repr=False, compare=False)
    _parsed: Any = field(repr=False, compare=False)
    _steps: dict[int, int] = field(repr=False, compare=False, default_factory=dict)

    def fullmatch(self, name: str, *, key: str = "") -> bool:
        """Return whether the expression matches the whole name.

        Raises `MatchLimitError` if matching would take too many steps. `key` is the configuration
        key that contains the expression; the error message names it.
        """
        matches = self._match_within_limits(name)
        if matches is None:
            begin = f"{name[:_SHOWN_MAX]}…" if len(name) > _SHOWN_MAX else name
            raise MatchLimitError(
                f"{f'{key}: ' if key else ''}matching the regular expression {self.text!r} against "
                f"the name {begin!r} of {len(name)} characters would take too many steps: write "
                "the expression without repetitions inside repetitions"
            )
        return matches

    def _match_within_limits(self, name: str) -> bool | None:
        """Return whether the expression matches the whole name. Return None if the step limit was
        exceeded, if no NFA can be built, or if a bug in `re` raised an error."""
        try:
            if self.estimate_steps(len(name)) <= STEPS_MAX:
                return self._compiled.fullmatch(name) is not None
            program = _build_nfa(self.text)
            return None if program is None else program.fullmatch(name)
        except (RecursionError, SystemError):  # CPython: "The span of capturing group is wrong"
            return None

    def estimate_steps(self, length: int) -> int:
        """Return an upper bound of the steps that `re` needs for a name of this length.

        The length is rounded up to a power of two that is at least `NAME_LENGTH_MAX`.
        """
        rounded = max(NAME_LENGTH_MAX, 1 << (length - 1).bit_length())
        if rounded not in self._steps:
            self._steps[rounded] = _estimate_cost(self._parsed, rounded)[1]
        return self._steps[rounded]


def compile_pattern(pattern: str) -> BoundedPattern:
    """Compile a Java regular expression.

    Raises `PatternError` if Python would match it differently or not in bounded time.
    """
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise PatternError(
            f"{pattern[:_SHOWN_MAX]}…",
            f"the expression has {len(pattern):,} characters, but at most {PATTERN_LENGTH_MAX:,} "
            "are allowed",
        )
    return _get_or_compile_pattern(pattern)


def _get_or_compile_pattern(pattern: str) -> BoundedPattern:
    is_short = len(pattern) <= _SHORT_PATTERN_MAX
    return _compile_short(pattern) if is_short else _compile_long(pattern)


def _compile_bounded_pattern(pattern: str) -> BoundedPattern:
    _reject_java_syntax(pattern)
    try:
        # ASCII, because Java's \d, \w, \s and (?i) match ASCII only by default.
        parsed = _parse_pattern(pattern)
        if _count_class_characters(parsed) > CLASS_CHARACTERS_MAX:
            raise PatternError(
                pattern,
                f"its character classes cover more than {CLASS_CHARACTERS_MAX:,} characters in "
                "total: use smaller ranges, or a dot",
            )
        compiled = BoundedPattern(pattern, _compiler.compile(parsed, parsed.state.flags), parsed)
        is_bounded = compiled.estimate_steps(NAME_LENGTH_MAX) <= STEPS_MAX
        if not is_bounded:
            program = _build_nfa(pattern)
            is_bounded = (
                program is not None and program.compute_max_re_steps(NAME_LENGTH_MAX) <= STEPS_MAX
            )
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise PatternError(pattern, f"not a regular expression: {error}") from None
    if not is_bounded:
        raise PatternError(
            pattern,
            f"may take more than {STEPS_MAX:,} steps for one name: avoid backreferences, atomic "
            "groups and possessive repetitions, or use fewer and smaller repetitions",
        )
    return compiled


_compile_short = functools.lru_cache(maxsize=4096)(_compile_bounded_pattern)
_compile_long = functools.lru_cache(maxsize=32)(_compile_bounded_pattern)  # up to 1.5 MB each


def compile_literal(name: str) -> BoundedPattern:
    """Compile an expression that matches only `name`."""
    return _get_or_compile_pattern(re.escape(name))


def _parse_pattern(pattern: str) -> Any:
    """Parse a regular expression. Remove the capture groups of an expression without
    backreferences, because `re` computes the content of some capture groups incorrectly."""
    parsed = _parser.parse(pattern, re.ASCII)
    if not _has_backreference(parsed):
        _remove_captures(parsed)
        parsed.state.groupwidths, parsed.state.groupdict = [None], {}
    return parsed


def _remove_captures(parsed: Any) -> None:
    for number, (op, argument) in enumerate(parsed):
        if op is _constants.SUBPATTERN:
            parsed[number] = (op, (None, *argument[1:]))
        for inner in _list_subpatterns(op, argument):
            _remove_captures(inner)


def _list_subpatterns(op: Any, argument: Any) -> Sequence[Any]:
    """Return the expressions nested directly in one part of a regular expression."""
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


def _count_class_characters(items: Any) -> int:
    """Return how many characters the ranges of all character classes cover."""
    count = 0
    for op, argument in items:
        if op is _constants.IN:
            ranges = [each for kind, each in argument if kind is _constants.RANGE]
            count += sum(last - first + 1 for first, last in ranges)
        for inner in _list_subpatterns(op, argument):
            count += _count_class_characters(inner)
    return count


def _estimate_cost(items: Any, length: int) -> tuple[int, int]:
    """Return (ways, steps) for matching a sequence of parts against a name of this length.

    `ways` is an upper bound of the number of different matches between which `re` can backtrack.
    `steps` is an upper bound of the steps that `re` needs.
    """
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
    costs = [_estimate_cost(each, length) for each in _list_subpatterns(op, argument)]
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
"""Kinds of expression parts that need no backtracking: from a given start position, `re` finds at
most one end position of a match."""


class _NfaUnsupportedError(Exception):
    """Raised if no NFA can be built, because the expression has a backreference or too many
    states."""


@dataclass(frozen=True, slots=True)
class _NfaState:
    """An NFA state.

    If `match` succeeds, matching continues after the end of the match in each state of `following`.
    If `match` is None, matching continues in each state of `following` at the same position.
    """

    match: Callable[[str, int], re.Match[str] | None] | None
    part: Any
    """The parsed expression part that `match` matches."""
    following: tuple[int, ...]
    lookahead: tuple[int, int] | None = None
    """First and last state of a lookahead's content. None if the state is not a lookahead, or if
    only `re` (`match`) can match the lookahead."""


class _TooManyStepsError(Exception):
    """Raised if matching one name would take too many steps."""


class _Nfa:
    """The NFA (nondeterministic finite automaton) of one regular expression. State 0 is the
    accepting state."""

    def __init__(self, parsed: Any) -> None:
        self._state = parsed.state
        self._compiled: dict[str, Callable[[str, int], re.Match[str] | None]] = {}
        self._steps = [_NfaState(None, None, ())]
        self._parts = _PARTS_MAX
        self._first = self._add_pattern_sequence(list(parsed), parsed.state.flags, 0)

    def compute_max_re_steps(self, length: int) -> int:
        """Return an upper bound of the steps that `re` needs for one part of the expression. Only
        parts for which the NFA depends on `re` are considered."""
        parts = [
            each.part for each in self._steps if each.match is not None and each.lookahead is None
        ]
        return max((_estimate_cost([part], length)[1] for part in parts), default=0)

    def fullmatch(self, name: str) -> bool | None:
        """Return whether the NFA matches the whole name; None if `re` could need too many steps."""
        try:
            return _NfaMatch(self._steps, name).reaches_end(self._first)
        except _TooManyStepsError:
            return None

    def _add_state(self, step: _NfaState) -> int:
        if len(self._steps) >= _STATES_MAX:
            raise _NfaUnsupportedError
        self._steps.append(step)
        return len(self._steps) - 1

    def _add_pattern_sequence(self, items: Sequence[Any], flags: int, following: int) -> int:
        """Add states for a sequence of parts that continues in state `following`. Return the first
        state."""
        for op, argument in reversed(items):
            following = self._add_pattern_part(op, argument, flags, following)
        return following

    def _add_pattern_part(self, op: Any, argument: Any, flags: int, following: int) -> int:
        self._parts -= 1
        if self._parts < 0:
            raise _NfaUnsupportedError
        if op is _constants.SUBPATTERN:
            _, more, fewer, inner = argument
            if more & _parser.TYPE_FLAGS:
                flags &= ~_parser.TYPE_FLAGS
            return self._add_pattern_sequence(list(inner), (flags | more) & ~fewer, following)
        if op is _constants.BRANCH:
            begins = [
                self._add_pattern_sequence(list(each), flags, following) for each in argument[1]
            ]
            return self._add_state(_NfaState(None, None, tuple(begins)))
        if op in _SINGLE_END_OPS:
            part = (op, argument)
            lookahead = None
            if op in (_constants.ASSERT, _constants.ASSERT_NOT) and argument[0] > 0:
                lookahead = self._add_lookahead(list(argument[1]), flags)
            return self._add_state(
                _NfaState(self._compile_pattern_part(part, flags), part, (following,), lookahead)
            )
        if op in _REPEAT_OPS:
            least, most, inner = argument
            return self._add_repetition(list(inner), int(least), most, flags, following)
        raise _NfaUnsupportedError

    def _add_lookahead(self, inner: Sequence[Any], flags: int) -> tuple[int, int] | None:
        """Add states for a lookahead. Return the (first, last) states, or None if only `re` can
        match the lookahead."""
        count = len(self._steps)
        try:
            end = self._add_state(_NfaState(None, None, ()))
            return self._add_pattern_sequence(inner, flags, end), end
        except _NfaUnsupportedError:
            del self._steps[count:]
            return None

    def _add_repetition(
        self, inner: Sequence[Any], least: int, most: Any, flags: int, following: int
    ) -> int:
        begin = following
        if most is _constants.MAXREPEAT:
            begin = self._add_state(_NfaState(None, None, ()))
            once = self._add_pattern_sequence(inner, flags, begin)
            self._steps[begin] = _NfaState(None, None, (once, following))
        else:
            for _ in range(int(most) - least):
                once = self._add_pattern_sequence(inner, flags, begin)
                if once == begin:  # an empty expression: repeating it changes nothing
                    break
                begin = self._add_state(_NfaState(None, None, (once, following)))
        for _ in range(least):
            once = self._add_pattern_sequence(inner, flags, begin)
            if once == begin:
                break
            begin = once
        return begin

    def _compile_pattern_part(
        self, part: Any, flags: int
    ) -> Callable[[str, int], re.Match[str] | None]:
        name = f"{flags} {part}"
        if name not in self._compiled:
            if _has_backreference(part):
                raise _NfaUnsupportedError
            # The compiler adds the state's flags, and those of the parsed state are global.
            state = _parser.State()
            state.flags = flags
            state.groupdict = self._state.groupdict
            state.groupwidths = self._state.groupwidths
            alone = _parser.SubPattern(state, [part])
            self._compiled[name] = _compiler.compile(alone, flags).match
        return self._compiled[name]


class _NfaMatch:
    """Matches one name against an NFA, within the step limits."""

    def __init__(self, steps: Sequence[_NfaState], name: str) -> None:
        self._steps = steps
        self._name = name
        self._costs: dict[int, int] = {}
        self._steps_left, self._visits_left = STEPS_MAX, VISITS_MAX
        self._failing: set[tuple[int, int]] = set()
        self._matching: set[tuple[int, int]] = set()

    def reaches_end(self, first: int) -> bool:
        """Return whether a path exists from state `first` through the whole name to the accepting
        state.

        Raises `_TooManyStepsError` if the limits are exceeded.
        """
        waiting: list[set[int]] = [set() for _ in range(len(self._name) + 1)]
        waiting[0].add(first)
        for at, reached in enumerate(waiting):
            todo = list(reached)
            while todo:
                number = todo.pop()
                end = self._match_state(number, at)
                if end is None:
                    continue
                for following in self._steps[number].following:
                    if following not in waiting[end]:
                        waiting[end].add(following)
                        if end == at:
                            todo.append(following)
        return 0 in waiting[-1]

    def _match_state(self, number: int, at: int) -> int | None:
        """Return the position at which the state's match at `at` ends; None if the state does
        not match there."""
        self._visits_left -= 1
        if self._visits_left < 0:
            raise _TooManyStepsError
        step = self._steps[number]
        if step.match is None:
            return at
        if number not in self._costs:
            self._costs[number] = _estimate_cost([step.part], len(self._name))[1]
        left = self._steps_left - self._costs[number]
        if step.lookahead is not None and left < _LOOKAHEAD_STEP_RESERVE:
            matches = self._matches_lookahead(*step.lookahead, at)
            return at if matches == (step.part[0] is _constants.ASSERT) else None
        self._steps_left = left
        if left < 0:
            raise _TooManyStepsError
        match = step.match(self._name, at)
        return None if match is None else match.end()

    def _matches_lookahead(self, first: int, last: int, at: int) -> bool:
        """Return whether a lookahead's content matches at position `at`: a path leads from state
        `first` to state `last`.

        Each result is cached by (state, position) for later evaluations of the same lookahead.
        `last` is not part of the key, because a path from a given state can end at only one `last`
        state.
        """
        came_from: dict[tuple[int, int], tuple[int, int] | None] = {(first, at): None}
        todo = [(first, at)]
        while todo:
            place = todo.pop()
            if place[0] == last or place in self._matching:
                back: tuple[int, int] | None = place
                while back is not None:
                    self._matching.add(back)
                    back = came_from[back]
                return True
            if place in self._failing:
                continue
            end = self._match_state(*place)
            if end is None:
                continue
            for following in self._steps[place[0]].following:
                if (
                    len(came_from) + len(self._failing) + len(self._matching)
                    > _LOOKAHEAD_STATES_MAX
                ):
                    raise _TooManyStepsError
                if (following, end) not in came_from:
                    came_from[following, end] = place
                    todo.append((following, end))
        self._failing.update(came_from)
        return False


def _has_backreference(part: Any) -> bool:
    """Return whether a part of an expression contains a backreference."""
    if isinstance(part, (tuple, list, _parser.SubPattern)):
        return any(_has_backreference(each) for each in part)
    return part is _constants.GROUPREF or part is _constants.GROUPREF_EXISTS


@functools.lru_cache(maxsize=256)
def _build_nfa(pattern: str) -> _Nfa | None:
    """Build the NFA of an expression, or return None if the expression needs `re` or is too
    large."""
    try:
        return _Nfa(_parse_pattern(pattern))
    except _NfaUnsupportedError:
        return None


def _reject_java_syntax(pattern: str) -> None:
    in_class = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            _reject_java_escape(pattern, pattern[at + 1 : at + 2])
            at += 2
            continue
        if in_class:
            if char == "[" or pattern.startswith("&&", at):
                raise PatternError(
                    pattern,
                    ("nested classes and && inside [...] are not supported: write one plain [...]"),
                )
            in_class = char != "]"
        elif char == "[":
            in_class = True
            at += 1 + pattern.startswith("^", at + 1)
            if pattern.startswith("]", at):
                raise PatternError(
                    pattern,
                    r"Java and Python interpret a ] at the start of a class differently: write \]",
                )
            continue
        elif _JAVA_GROUP.match(pattern, at):
            raise PatternError(
                pattern,
                ("Java's group name syntax is not supported: write (?P<name>...) or (?:...)"),
            )
        at += 1


def _reject_java_escape(pattern: str, escaped: str) -> None:
    if escaped in _JAVA_ESCAPES:
        raise PatternError(pattern, f"Python has no {_JAVA_ESCAPES[escaped]}")
