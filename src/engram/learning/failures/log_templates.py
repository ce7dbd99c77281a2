"""Group lines that are equal but for their values, in formats nobody has described."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated

from pydantic import Field, JsonValue

from engram.learning.failures.variable_parts import PLACEHOLDERS, has_opposite, mask
from engram.model.content import Frozen

MAX_TOKENS = 200
MASKED = "<*>"
"""A value recognised by its form."""
LEARNED = "<**>"
"""A value recognised only by comparing lines: the same place held too many words."""

_PLAIN, _NAMED, _CAPITALS, _SEEN = 6, 8, 3, 16
"""Evidence of one more word in the same place, all else equal; words in capitals are mostly states and commands."""


@dataclass(frozen=True, slots=True)
class GroupingLimits:
    """The evidence needed to treat a place as a value."""

    enough: int = 24
    """Evidence needed: four plain words, three names, or one name beside a masked value."""
    fewest: int = 3
    """Words a line needs for one of them to be treated as a value."""


DEFAULT = GroupingLimits()
_PAIR_LIMIT = 40
_LONGEST_REPEAT = 6
_STEPS = 2000
_SEVERAL = 2
"""Contexts in which a word must stand in place of a masked value to be a value itself."""
_LOOKED_AT = 50

_TOKEN = re.compile(
    r"<[a-z*]{1,5}>|(?<![\w:=])[A-Za-z][\w-]{0,62}:(?=<(?:num|id|\*)>(?!\.?\w|:\w))|\w[\w.@$%+~#-]*|[^\w\s]"
)
"""The second form is a name followed by its port or version, such as `redis:6379`."""
_DASH, _APART = re.compile(r"(?<=\S) [-–—] (?=\S)"), "–"
"""A dash between spaces separates two parts; a hyphen joins words."""
_NAME = re.compile(r"[a-z][A-Z]|\w[._$@~-]\w")
_ENCLOSED = {("(", ")"), ("[", "]"), ("{", "}"), ("'", "'"), ('"', '"')}
_CLOSING = frozenset(")]")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_EDGES = frozenset({*_BRACKETS, *_BRACKETS.values()})
_JOINTS = frozenset(",:/-#.|+_;&@")
_UNITS = frozenset(
    """kb mb gb tb kib mib gib b k m g t bytes byte bits bit ns us µs ms s h d msec msecs sec secs min mins
    millisecond milliseconds microseconds nanoseconds second seconds minute minutes hour hours day days % hz khz
    mhz ghz""".split()
)
_QUALIFIERS = _UNITS | frozenset("http https ftp sftp ssh tcp udp tls ssl ipv4 ipv6 socks".split())
"""A unit or protocol after a value belongs to it."""

Tokens = tuple[str, ...]


def tokens(line: str) -> Tokens:
    """Split a line into words and signs, with values masked; a list of values, or empty brackets, is one value."""
    found: list[str] = []
    for raw in _TOKEN.findall(_DASH.sub(f" {_APART} ", mask(line))):
        token = raw.rstrip(".") or raw
        last = found[-1] if found else ""
        if token in PLACEHOLDERS or token == LEARNED:
            if len(last) > 1 and last[-1] == ":":
                found[-1] = last + MASKED
                continue
            if last == MASKED:
                continue
            if last in _JOINTS and found[-2:-1] == [MASKED]:
                found.pop()
                continue
            token = MASKED
        elif last == MASKED and token.lower() in _QUALIFIERS:
            continue
        elif (last, token) in _ENCLOSED:
            found.append(MASKED)
        found.append(token)
        _drop_detail(found)
        _drop_repeat(found)
    return tuple(found) if len(found) <= MAX_TOKENS else (*found[: MAX_TOKENS // 2], "…", *found[-MAX_TOKENS // 2 :])


def _drop_detail(found: list[str]) -> None:
    """Drop a value in brackets after a value, such as `18867 bytes (18.4 KB)`, which may be missing elsewhere."""
    if found[-1] in _CLOSING and found[-2:-1] == [MASKED] == found[-4:-3] and (found[-3], found[-1]) in _ENCLOSED:
        del found[-3:]


def _drop_repeat(found: list[str]) -> None:
    """Drop the end of a list if it repeats the preceding element with other values."""
    for length in range(2, min(_LONGEST_REPEAT, len(found) // 2) + 1):
        if (
            found[-1] == found[-1 - length]
            and MASKED in (end := found[-length:])
            and end == found[-2 * length : -length]
        ):
            del found[-length:]
            return


def group_lines(lines: Sequence[str], limits: GroupingLimits = DEFAULT) -> list[int]:
    """Return the group of each line, numbered by first occurrence; all lines are learned before any is grouped."""
    tree = TemplateTree(limits)
    shapes = [tokens(line) for line in lines]
    for shape in dict.fromkeys(shapes):
        tree.add_tokens(shape)
    tree.settle()
    groups = {shape: tree.find_tokens(shape) for shape in dict.fromkeys(shapes)}
    numbers: dict[int | None, int] = {}
    return [numbers.setdefault(groups[shape], len(numbers)) for shape in shapes]


@lru_cache(maxsize=50_000)
def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"


@lru_cache(maxsize=50_000)
def _is_name(token: str) -> bool:
    return _NAME.search(token) is not None


@lru_cache(maxsize=50_000)
def _is_verb(token: str) -> bool:
    return len(token) > 4 and token.isalpha() and token.lower().endswith(("ed", "ing"))


@lru_cache(maxsize=50_000)
def _variability(token: str) -> int:
    if token == MASKED:
        return _SEEN
    if len(token) == 1 or token.endswith(MASKED):
        return _NAMED
    if token.isupper():
        return _CAPITALS
    return _NAMED if _is_name(token) else _PLAIN


def _may_vary(shape: Tokens, place: int) -> bool:
    """Return whether a place may hold a value: keys, verbs, words with an opposite and first words may not."""
    token = shape[place]
    if token == MASKED:
        return True
    if not _is_word(token) or _is_verb(token) or has_opposite(token):
        return False
    if place + 1 < len(shape) and shape[place + 1] == "=":
        return False
    first = place == 0 or (place == 2 and shape[1] == ":")
    return not first or token.count(".") > 1 or shape[place + 1 : place + 2] == (_APART,)


def _without_details(shape: Tokens, fewest: int) -> dict[Tokens, None]:
    """Return the shape without each of its brackets that holds a value, if enough words remain."""
    found = dict[Tokens, None]()
    for start, token in enumerate(shape):
        if token not in _BRACKETS:
            continue
        end = next((place for place in range(start + 1, len(shape)) if shape[place] in _EDGES), start)
        if shape[end] == _BRACKETS[token] and {MASKED, LEARNED} & set(shape[start:end]):
            bare = (*shape[:start], *shape[end + 1 :])
            if _constants(bare) >= fewest:
                found[bare] = None
    return found


def _constants(shape: Tokens) -> int:
    return sum(map(_is_word, shape))


def _contexts(shape: Tokens, fewest: int) -> Iterator[tuple[bytes, int]]:
    """Yield, for each place that may hold a value, a digest of everything around it."""
    if _constants(shape) < fewest:
        return
    whole, start = "\x1f".join(shape), 0
    for place, token in enumerate(shape):
        end = start + len(token)
        if _may_vary(shape, place):
            around = f"{place}\x1e{whole[:start]}\x1e{whole[end:]}"
            yield blake2b(around.encode("utf-8", "surrogatepass"), digest_size=12).digest(), place
        start = end + 1


class _Node:
    """A node of the tree: its children, and the group of the template that ends here."""

    __slots__ = ("group", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.group: int | None = None


class _State(Frozen):
    """The saved state of a tree: group parents, words known as values, and templates."""

    groups: list[int]
    values: list[str]
    templates: list[tuple[list[Annotated[str, Field(min_length=1)]], int]]


class TemplateTree:
    """Templates learned line by line; the same lines in the same order give the same groups."""

    def __init__(self, limits: GroupingLimits = DEFAULT) -> None:
        self._limits = limits
        self._root = _Node()
        self._templates: dict[Tokens, int] = {}
        self._parents: list[int] = []
        self._shapes: dict[int, dict[Tokens, None]] = {}
        self._around: dict[bytes, dict[Tokens, None]] = {}
        self._detailed: dict[Tokens, dict[Tokens, None]] = {}
        """Maps a template without its bracketed detail to the templates with it."""
        self._values: set[str] = set()
        self._words: Counter[str] = Counter()
        self._contexts_of: dict[str, dict[bytes, int]] = {}

    def add(self, line: str) -> int:
        """Return the group of a line, which may be new; groups can be merged later (see `current`)."""
        return self.add_tokens(tokens(line))

    def find(self, line: str) -> int | None:
        """Return the group of a line if it is known, without learning."""
        return self.find_tokens(tokens(line))

    def template(self, group: int) -> str:
        """Return what the lines of a group share, with `<*>` for values. Raises `KeyError` for an unknown group."""
        if not 0 <= group < len(self._parents):
            raise KeyError(group)
        own = self._shapes[self._group(group)]
        return _to_text(max(own, key=lambda shape: (shape.count(LEARNED), shape.count(MASKED), -len(shape))))

    def current(self, group: int) -> int:
        """Return the present number of a group, which changes when groups are merged."""
        return self._group(group)

    def dump(self) -> JsonValue:
        """Return the state as JSON."""
        return {
            "groups": list[JsonValue](self._parents),
            "values": list[JsonValue](sorted(self._values)),
            "templates": [[list[JsonValue](shape), group] for shape, group in self._templates.items()],
        }

    @classmethod
    def load(cls, state: JsonValue) -> TemplateTree:
        """Restore from the output of `dump`, to behave the same from there on. Raises `ValueError` for other input."""
        found = _State.model_validate(state)
        known = range(len(found.groups))
        if any(not 0 <= parent <= group for group, parent in enumerate(found.groups)):
            raise ValueError("a group is part of one that came later; this is no dump of a template tree")
        if any(group not in known for _, group in found.templates):
            raise ValueError("a template has a group that is not there; this is no dump of a template tree")
        tree = cls()
        tree._parents, tree._values = list(found.groups), set(found.values)
        for shape, group in found.templates:
            tree._insert(tuple(shape), group)
        if any(not tree._shapes.get(tree._group(group)) for group in known):
            raise ValueError("a group has no template; this is no dump of a template tree")
        return tree

    def add_tokens(self, shape: Tokens) -> int:
        """Like `add`, for a line that is split into tokens already."""
        known = self.find_tokens(shape)
        if known is not None:
            return known
        group = len(self._parents)
        self._parents.append(group)
        self._insert(shape, group)
        self._learn([shape])
        return self._group(group)

    def find_tokens(self, shape: Tokens) -> int | None:
        """Like `find`, for a line that is split into tokens already."""
        group = self._walk(shape)
        return None if group is None else self._group(group)

    def settle(self) -> None:
        """Merge templates whose differences turn out to be values, looking at all of them together."""
        self._learn(list(self._templates))
        for shapes, places in _differing_in_two(self._templates, self._limits):
            live = [shape for shape in shapes if shape in self._templates]
            if len(live) > 1:
                self._generalise(live, places)
        self._learn(list(self._templates))
        for shape in sorted(self._templates, key=lambda shape: (shape.count(LEARNED), shape)):
            group = self._templates[shape]
            self._remove(shape)
            wider = self._walk(shape)
            if wider is None:
                self._insert(shape, group)
            else:
                self._join([group, wider])

    def _group(self, group: int) -> int:
        while self._parents[group] != group:
            group = self._parents[group]
        return group

    def _join(self, groups: Iterable[int]) -> int:
        roots = {self._group(group) for group in groups}
        first = min(roots)
        for root in sorted(roots - {first}):
            self._parents[root] = first
            self._shapes.setdefault(first, {}).update(self._shapes.pop(root, {}))
        return first

    def _insert(self, shape: Tokens, group: int) -> None:
        node = self._root
        for token in shape:
            node = node.next.setdefault(token, _Node())
        node.group = group
        self._templates[shape] = group
        self._shapes.setdefault(self._group(group), {})[shape] = None
        self._words.update(set(shape))
        for digest, place in _contexts(shape, self._limits.fewest):
            self._around.setdefault(digest, {})[shape] = None
            self._contexts_of.setdefault(shape[place], {})[digest] = place
        for bare in _without_details(shape, self._limits.fewest):
            self._detailed.setdefault(bare, {})[shape] = None

    def _remove(self, shape: Tokens) -> None:
        path = [self._root]
        for token in shape:
            path.append(path[-1].next[token])
        path[-1].group = None
        for token, node, parent in zip(reversed(shape), reversed(path), reversed(path[:-1]), strict=False):
            if node.next or node.group is not None:
                break
            del parent.next[token]
        del self._shapes[self._group(self._templates.pop(shape))][shape]
        self._words.subtract(set(shape))
        for digest, place in _contexts(shape, self._limits.fewest):
            del self._contexts_of[shape[place]][digest]
            around = self._around[digest]
            del around[shape]
            if not around:
                del self._around[digest]
        for bare in _without_details(shape, self._limits.fewest):
            self._detailed[bare].pop(shape, None)
            if not self._detailed[bare]:
                del self._detailed[bare]

    def _join_details(self, shape: Tokens) -> None:
        """Merge a template with its variant that has a bracketed detail, unless there are several kinds of details."""
        for bare in (shape, *_without_details(shape, self._limits.fewest)):
            detailed = self._detailed.get(bare, {})
            if bare in self._templates and len(detailed) == 1:
                self._join([self._templates[bare], *(self._templates[other] for other in detailed)])

    def _learn(self, shapes: list[Tokens]) -> None:
        """Find places around these templates that hold values, until there are no more."""
        waiting = list(reversed(shapes))
        while waiting:
            shape = waiting.pop()
            if shape not in self._templates:
                continue
            self._join_details(shape)
            for digest, place in _contexts(shape, self._limits.fewest):
                alike = list(self._around[digest])
                if len(alike) > 1 and self._are_values([other[place] for other in alike]):
                    fresh = {other[place] for other in alike} - self._values - {MASKED}
                    waiting.append(self._generalise(alike, (place,)))
                    waiting.extend(self._beside(fresh))
                    break

    def _are_values(self, found: list[str]) -> bool:
        words = [word for word in found if word != MASKED]
        known = [word in self._values or (MASKED in found and self._stands_for_values(word)) for word in words]
        if len(found) > 1 and all(known):
            return True
        return sum(map(_variability, found)) >= self._limits.enough

    def _beside(self, words: Iterable[str]) -> list[Tokens]:
        """Return the templates in which one of these words stands where others have another word."""
        contexts = (self._around[digest] for word in sorted(words) for digest in self._contexts_of.get(word, ()))
        return [shape for shapes in contexts if len(shapes) > 1 for shape in shapes]

    def _stands_for_values(self, word: str) -> bool:
        """Return whether a word stands in place of a masked value in several contexts."""
        contexts = list(self._contexts_of.get(word, {}).items())[:_LOOKED_AT]
        seen = sum(any(shape[place] == MASKED for shape in self._around[digest]) for digest, place in contexts)
        return seen >= _SEVERAL

    def _generalise(self, shapes: Sequence[Tokens], places: tuple[int, ...]) -> Tokens:
        """Replace templates that differ only in some places by one that has values there."""
        group = self._join(self._templates[shape] for shape in shapes)
        for shape in shapes:
            self._values.update(shape[place] for place in places if shape[place] != MASKED)
            self._remove(shape)
        wide = tuple(LEARNED if place in places else token for place, token in enumerate(shapes[0]))
        if wide in self._templates:
            group = self._join([group, self._templates[wide]])
            self._remove(wide)
        self._insert(wide, group)
        return wide

    def _walk(self, shape: Tokens) -> int | None:
        """Return the group of the most literal template that fits, visiting a bounded number of branches."""
        end = len(shape)
        stack, steps = [(self._root, 0)], 0
        while stack and steps < _STEPS:
            node, place = stack.pop()
            steps += 1
            if place == end:
                if node.group is not None:
                    return node.group
                continue
            token = shape[place]
            wild = node.next.get(LEARNED)
            if wild is not None:
                stack.extend((wild, stop) for stop in self._stops(wild, shape, place))
            exact = node.next.get(token)
            if exact is not None and exact is not wild:
                stack.append((exact, place + 1))
        return None

    def _stops(self, wild: _Node, shape: Tokens, place: int) -> Iterator[int]:
        """Yield where a value that starts here may end, the most likely last.

        Several words are a value only if they do not start like a text, or if one of them is known to vary.
        """
        end = len(shape)
        if self._is_free(shape, place):
            longest = shape.index(LEARNED, place) if LEARNED in shape[place:] else end
            if wild.group is not None and longest == end > place + 1:
                yield end
            for stop in range(min(longest, end - 1), place + 1, -1):
                if shape[stop] in wild.next:
                    yield stop
        if shape[place] in wild.next:
            yield place
        if not has_opposite(shape[place]):
            yield place + 1

    def _is_free(self, shape: Tokens, place: int) -> bool:
        """Return whether the next word is a constant in no template."""
        first = next((token for token in shape[place:] if _is_word(token)), None)
        return first is not None and (first in self._values or not self._words[first])


def _differing_in_two(
    shapes: Iterable[Tokens], limits: GroupingLimits
) -> Iterator[tuple[list[Tokens], tuple[int, int]]]:
    """Yield templates that differ only in the same two places, if both hold several words."""
    around: dict[tuple[Tokens, int, int], list[Tokens]] = {}
    for shape in _sharing_a_third(shapes, limits.fewest + 2):
        places = [place for place in range(len(shape)) if shape[place] != MASKED and _may_vary(shape, place)]
        for number, first in enumerate(places):
            for second in places[number + 1 :]:
                rest = (*shape[:first], "", *shape[first + 1 : second], "", *shape[second + 1 :])
                around.setdefault((rest, first, second), []).append(shape)
    for (_, first, second), alike in around.items():
        ones, others = {shape[first] for shape in alike}, {shape[second] for shape in alike}
        if min(sum(map(_variability, ones)), sum(map(_variability, others))) >= limits.enough:
            yield alike, (first, second)


def _sharing_a_third(shapes: Iterable[Tokens], fewest: int) -> list[Tokens]:
    """Return templates that share a third with others: two differences leave at least one third equal."""
    thirds: dict[tuple[int, int, Tokens], list[Tokens]] = {}
    for shape in shapes:
        length = len(shape)
        if length <= _PAIR_LIMIT and _constants(shape) >= fewest:
            for part in range(3):
                piece = shape[part * length // 3 : (part + 1) * length // 3]
                thirds.setdefault((length, part, piece), []).append(shape)
    return list(dict.fromkeys(shape for alike in thirds.values() if len(alike) > 2 for shape in alike))


def _to_text(shape: Tokens) -> str:
    """Write a template as a line of text."""
    text = ""
    for token in shape:
        shown = MASKED if token == LEARNED else token
        glued = not text or (len(shown) == 1 and shown in ".,:;)]}'\"=/%") or text[-1] in "([{=/'\""
        text += shown if glued else f" {shown}"
    return text
