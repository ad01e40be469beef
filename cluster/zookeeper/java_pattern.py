"""Java's regular expressions, as far as names of topics are chosen with them, in time that grows with the text only.

Patterns come from other programs' data: one that takes Python's or Java's matcher forever must not do so here.  So
all ways through a pattern are followed at once.  What needs another matcher (back references, looking around,
possessive quantifiers) is refused.  Decided by `java.util.regex.Pattern`, `String.matches`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable

from kafkalog.codec.errors import FormatError

__all__ = ["JavaPattern"]

_MOST_STATES = 2_000
_DEEPEST = 50
_MOST_STEPS = 20_000_000

Test = Callable[[str], bool]
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES: dict[str, frozenset[str]] = {
    "d": frozenset(string.digits),
    "w": _WORD,
    "s": frozenset(" \t\n\v\f\r"),
}
_POSIX: dict[str, frozenset[str]] = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "Alpha": frozenset(string.ascii_letters),
    "Digit": frozenset(string.digits),
    "Alnum": frozenset(string.ascii_letters + string.digits),
    "Punct": frozenset(string.punctuation),
    "XDigit": frozenset(string.hexdigits),
}
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_LINE_ENDS = frozenset("\n\r\u0085\u2028\u2029")
_COUNT = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}", re.ASCII)
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]{1,6})\}")
_FLAGS = re.compile(r"\?([a-zA-Z]*)(\)|:)")


class _Node:
    """A part of a pattern: how it is laid out between two states."""

    def __init__(self, kind: str, parts: Iterable[_Node] = (), test: Test | None = None) -> None:
        self.kind = kind
        self.parts = list(parts)
        self.test = test
        self.least = self.most = 1


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.ignore_case = False

    def refused(self, why: str) -> FormatError:
        return FormatError(f"the pattern {self.text!r} {why}", position=self.at)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        found = self.peek()
        if not found:
            raise self.refused("ends too early")
        self.at += 1
        return found

    def whole(self) -> _Node:
        found = self.alternatives()
        if self.peek():
            raise self.refused("has a bracket that nothing opens")
        return found

    def alternatives(self) -> _Node:
        ways = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            ways.append(self.sequence())
        return ways[0] if len(ways) == 1 else _Node("or", ways)

    def sequence(self) -> _Node:
        parts = []
        while (sign := self.peek()) and sign not in "|)":
            if sign in "*+?{":
                raise self.refused(f"repeats nothing with {sign}")
            parts.append(self.repeated(self.atom()))
        return _Node("then", parts)

    def repeated(self, part: _Node) -> _Node:
        if (sign := self.peek()) and sign in "*+?{":
            if sign == "{":
                match = _COUNT.match(self.text, self.at)
                if match is None:
                    raise self.refused("has a count that cannot be read")
                self.at = match.end()
                least = int(match[1])
                most = int(match[3]) if match[3] else -1 if match[2] else least
                if (match[3] and not match[2]) or 0 <= most < least:
                    raise self.refused("has a count that cannot be read")
            else:
                self.at += 1
                least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[sign]
            if self.peek() == "+":
                raise self.refused("has a possessive quantifier")
            if self.peek() == "?":  # which way comes first makes no difference for whole names
                self.at += 1
            part = _Node("repeat", [part])
            part.least, part.most = least, most
        return part

    def atom(self) -> _Node:
        sign = self.take()
        if sign == "(":
            return self.group()
        if sign == "[":
            return _Node("one", test=self.bracket())
        if sign == ".":
            return _Node("one", test=lambda char: char not in _LINE_ENDS)
        if sign in "^$":
            return _Node("start" if sign == "^" else "end")
        if sign == "\\":
            return self.escaped()
        return self.literal(sign)

    def literal(self, sign: str) -> _Node:
        if self.ignore_case and sign in string.ascii_letters:
            both = sign.lower() + sign.upper()
            return _Node("one", test=both.__contains__)
        return _Node("one", test=sign.__eq__)

    def group(self) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.refused("is nested too deeply")
        before = self.ignore_case
        if self.peek() == "?":
            named = re.compile(r"\?<[a-zA-Z][a-zA-Z0-9]*>").match(self.text, self.at)
            flags = _FLAGS.match(self.text, self.at)
            if named is not None:
                self.at = named.end()
            elif flags is not None and set(flags[1]) <= set("imsudU"):
                self.at = flags.end()
                self.ignore_case = before or "i" in flags[1]
                if flags[2] == ")":
                    self.depth -= 1
                    return _Node("then")
            else:
                raise self.refused("looks around, or sets what is not known here")
        found = self.alternatives()
        if self.take() != ")":
            raise self.refused("has a bracket that nothing closes")
        self.depth -= 1
        self.ignore_case = before
        return found

    def escaped(self) -> _Node:
        sign = self.peek()
        if sign == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 1 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            if not quoted:
                return _Node("then")
            *first, last = (self.literal(each) for each in quoted)
            return _Node("then", [*first, self.repeated(last)])
        if sign and sign in "AzZ":
            self.at += 1
            return _Node("start" if sign == "A" else "end")
        members = self.escape()
        if isinstance(members, str):
            return self.literal(members)
        return _Node("one", test=members)

    def escape(self) -> str | Test:
        """What follows a backslash: one character, or a class of them."""
        sign = self.take()
        if sign.lower() in _CLASSES:
            members = _CLASSES[sign.lower()]
            return members.__contains__ if sign.islower() else lambda char: char not in members
        if sign in "pP":
            named = re.compile(r"\{(?:Is)?(\w+)\}").match(self.text, self.at)
            if named is None or named[1] not in _POSIX:
                raise self.refused("names a class of characters that is not known here")
            self.at = named.end()
            of = _POSIX[named[1]]
            return of.__contains__ if sign == "p" else lambda char: char not in of
        if sign in _SIGNS:
            return _SIGNS[sign]
        if sign in "xu":
            number = _HEX.match(self.text, self.at - 1)
            if number is None or int(number[number.lastindex or 1], 16) > 0x10FFFF:
                raise self.refused("has a character number that cannot be read")
            self.at = number.end()
            return chr(int(number[number.lastindex or 1], 16))
        if sign.isascii() and sign.isalnum():
            raise self.refused(f"has \\{sign}, which is not known here")
        return sign

    def bracket(self) -> Test:
        negated = self.peek() == "^"
        self.at += negated
        singles: set[str] = set()
        ranges: list[tuple[str, str]] = []
        tests: list[Test] = []
        first = True
        while first or self.peek() != "]":
            first = False
            low = self.member(tests)
            if low is None:
                continue
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", "["):
                self.at += 1
                high = self.member(tests)
                if high is None or high < low:
                    raise self.refused("has a range that cannot be read")
                ranges.append((low, high))
            else:
                singles.add(low)
        self.at += 1
        ignore = self.ignore_case

        def test(char: str) -> bool:
            ways = {char, char.lower(), char.upper()} if ignore and char.isascii() else {char}
            found = any(
                each in singles or any(low <= each <= high for low, high in ranges) or any(one(each) for one in tests)
                for each in ways
            )
            return found is not negated

        return test

    def member(self, tests: list[Test]) -> str | None:
        sign = self.take()
        if sign == "[" or (sign == "&" and self.peek() == "&"):
            raise self.refused("has a class of characters inside of another")
        if sign != "\\":
            return sign
        found = self.escape()
        if isinstance(found, str):
            return found
        tests.append(found)
        return None


class JavaPattern:
    """A pattern that matches whole names; `FormatError` if it is none of Java's, or beyond what is followed here."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tests: list[Test | None] = []
        self._next: list[list[int]] = []
        self._assertions: dict[int, str] = {}
        self._steps = 0
        self._end = self._state()
        self._start = self._lay(_Parser(text).whole(), self._end)

    def _state(self, test: Test | None = None, following: Iterable[int] = ()) -> int:
        if len(self._tests) >= _MOST_STATES:
            raise FormatError(f"the pattern {self.text[:100]!r} is too large")
        self._tests.append(test)
        self._next.append(list(following))
        return len(self._tests) - 1

    def _lay(self, node: _Node, after: int) -> int:
        """The state in front of `node`, if `after` is the one behind it."""
        if node.kind == "one":
            return self._state(node.test, [after])
        if node.kind in ("start", "end"):
            state = self._state(None, [after])
            self._assertions[state] = node.kind
            return state
        if node.kind == "or":
            return self._state(None, [self._lay(each, after) for each in node.parts])
        if node.kind == "then":
            for each in reversed(node.parts):
                after = self._lay(each, after)
            return after
        part = node.parts[0]
        if node.most < 0:
            loop = self._state(None, [after])
            self._next[loop].append(self._lay(part, loop))
            after = loop
        else:
            behind = after
            for _ in range(node.most - node.least):
                after = self._state(None, [behind, self._lay(part, after)])
        for _ in range(node.least):
            after = self._lay(part, after)
        return after

    def _reach(self, states: Iterable[int], *, start: bool, end: bool) -> set[int]:
        """All states that are reached without a character."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            kind = self._assertions.get(state)
            if (kind == "start" and not start) or (kind == "end" and not end):
                continue
            found.add(state)
            if self._tests[state] is None:
                waiting += self._next[state]
        return found

    def matches(self, name: str) -> bool:
        """Whether the whole of `name` matches; `FormatError` when all names together took too long."""
        states = self._reach([self._start], start=True, end=not name)
        for at, char in enumerate(name, 1):
            self._steps += len(states)
            if self._steps > _MOST_STEPS:
                raise FormatError(f"the pattern {self.text[:100]!r} takes too long")
            passed = [
                self._next[state][0] for state in states if (test := self._tests[state]) is not None and test(char)
            ]
            states = self._reach(passed, start=False, end=at == len(name))
            if not states:
                return False
        return self._end in states
