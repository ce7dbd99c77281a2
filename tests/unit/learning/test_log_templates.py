"""Lines that differ only in values are grouped, whatever their format, and the tree can be stored at any time."""

from __future__ import annotations

import json
import time
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from engram.learning.failures.log_templates import MAX_TOKENS, TemplateTree, group_lines, tokens

NAMES = ["ann", "bob", "carla", "dmitri", "eve", "farid"]
LINE = st.text(alphabet="ab1 :=(),.'<*>/", max_size=40) | st.sampled_from(
    [f"session of {name} was closed by host" for name in NAMES]
    + [f"the {noun} of shop {name} is not open today" for noun in ("door", "till") for name in NAMES]
)


def together(*lines: str) -> bool:
    return len(set(group_lines(lines))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ("job 17 took 3.2 s", "job 18 took 44 ms"),
        ("sent 12 bytes to 10.0.0.1:80", "sent 3 KB to db.example.com:5432"),
        ("delete blk_1 blk_2 blk_3", "delete blk_9"),
        ("nodes n-1 0x1 <ok> n-2 0x2 <ok> n-3 0x3 <ok>", "nodes n-7 0x1 <ok>"),
        ("open (10.0.0.2) failed now", "open () failed now"),
        ("lifetime <1 sec", "lifetime 00:31"),
        ("mail.shop.xyz:993 shut, 7 bytes (1.2 KB) sent", "10.0.0.3:80 shut, 0 bytes sent"),
        ('lease=7 tag="front door" owner=com.shop.till ws=null', 'lease=9 tag="x" owner=till ws=Source{12}'),
        ("hide Window{a64f99 token=Token{7fe u0 shop.ui/.Main}} now", "hide Window{9fabcde} now"),
        ("lookup of ns.abc.ro [10.1.2.3] failed", "lookup of host-7.vnpt.vn [10.9.9.9] failed"),
        ("boot of node-[40-63] began", "boot of node-7 began"),
        ("core at deadbeef of job 7", "core at 0246dd1c of job 9"),
        ("tunnel by 10.0.0.1:80 HTTPS", "tunnel by 10.0.0.1:80 SOCKS5"),
        ("greeting from gate[10.0.0.1] was odd", "greeting from mail.shop.org[10.0.0.9] was odd"),
        ("till.exe - 10.0.0.1:80 shut", "door.exe *64 - 10.0.0.2:443 shut"),
        ("cannot reach redis:6379 from here", "cannot reach 10.0.0.7:6379 from here"),
        ("read /var/a.log at line 3", "read C:\\a\\b.log at line 77"),
    ],
)
def test_values_that_look_like_values_make_no_difference(lines: tuple[str, ...]) -> None:
    assert together(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        ("shop opened at 10:00", "shop closed at 10:00"),
        ("GET /a/b done in 3 ms", "POST /a/b done in 3 ms"),
        ("retries=3 left", "limits=3 left"),
        ("door is open", "door is shut"),
        ("sync of shop ended, reason=timeout", "sync of shop ended, reason=denied"),
        ("server setting door=7", "server setting till=7"),
    ],
)
def test_few_words_in_the_same_place_are_different_events(lines: tuple[str, ...]) -> None:
    assert len(set(group_lines(lines))) == len(lines)


def test_many_words_in_the_same_place_are_values() -> None:
    assert together(*(f"session closed for user {name}" for name in NAMES))


def test_names_need_fewer_witnesses_than_plain_words() -> None:
    assert together(*(f"loading class {name} from cache" for name in ("app.Cart", "app.Till", "app.Door")))
    assert not together(*(f"loading class {name} from cache" for name in ("cart", "till", "door")))


def test_a_word_that_is_a_value_in_one_place_is_one_in_another() -> None:
    closed = [f"session closed for user {name}" for name in NAMES]
    opened = [f"session opened for user {name} by root" for name in NAMES[:2]]
    groups = group_lines(closed + opened)
    assert len(set(groups)) == 2
    assert groups[-1] == groups[-2]


def test_verbs_keys_and_first_words_are_never_values() -> None:
    verbs = [f"machine 7 was {verb} by hand" for verb in ("started", "stopped", "paused", "resumed", "closing")]
    keys = [f"setting of shop {key}=5 kept" for key in ("door", "till", "sign", "light", "shelf")]
    firsts = [f"{daemon} startup has succeeded" for daemon in ("cupsd", "klogd", "sshd", "crond", "ntpd")]
    assert len(set(group_lines(verbs + keys + firsts))) == 15


def test_a_value_of_several_words_joins_once_its_place_is_known() -> None:
    lines = [f"Channel {name} not found in the list" for name in NAMES]
    assert together(*lines, "Channel zed of the north not found in the list", "Channel  not found in the list")


def test_a_text_that_starts_like_others_is_no_value() -> None:
    lines = [f"Failed login for {name} from desk" for name in NAMES]
    other = [f"Failed login for invalid user {name} from desk" for name in NAMES]
    groups = group_lines(["check pass for invalid user", *lines, *other])
    assert len(set(groups[1:7])) == 1
    assert len(set(groups[7:])) == 1
    assert groups[1] != groups[7]


def test_words_before_a_value_that_varies_are_a_text() -> None:
    shorter = [f"Failed login for {name} from desk" for name in NAMES]
    longer = [f"Failed login for invalid user {name} from desk" for name in NAMES]
    groups = group_lines([*longer, *shorter])
    assert groups == [0] * 6 + [1] * 6


def test_a_word_that_stands_for_a_masked_value_in_several_contexts_is_a_value() -> None:
    lines = [
        f"{name} {event}" for event in ("is back at work", "has left the building") for name in ("seat 7", "seat gw")
    ]
    assert not together(*lines[:2])
    for order in (lines, lines[::-1]):
        tree = TemplateTree()
        groups = [tree.add(line) for line in order]
        assert len({tree.current(group) for group in groups}) == 2
    assert len(set(group_lines(lines))) == 2


def test_what_is_learnt_of_a_word_joins_the_groups_that_came_before() -> None:
    tree = TemplateTree()
    early = [tree.add(f"session opened for user {name} by root") for name in NAMES[:2]]
    assert tree.current(early[0]) != tree.current(early[1])
    for name in NAMES:
        tree.add(f"session closed for user {name}")
    assert tree.current(early[0]) == tree.current(early[1])


def test_a_name_before_a_dash_is_a_value_if_there_are_many() -> None:
    events = ("the line was cut", "the line is free again")
    lines = [f"{program} - {event}" for event in events for program in ("till", "door", "java", "lamp")]
    assert len(set(group_lines(lines))) == 2
    assert len(set(group_lines(["stock - none of it is left", "order - none of it is left"]))) == 2


def test_two_places_that_vary_at_once_are_seen_when_all_lines_are_known() -> None:
    goods = ["tea", "salt", "rice", "soap", "milk", "corn"]
    lines = [f"moved {good} from the store to shop {name} today" for good, name in zip(goods, NAMES, strict=True)]
    assert together(*lines)


def test_groups_are_numbered_by_first_occurrence() -> None:
    assert group_lines(["b x y", "a x y", "b x y", "c x y"]) == [0, 1, 0, 2]
    assert group_lines([]) == []


def test_a_template_reads_like_the_line() -> None:
    tree = TemplateTree()
    for name in NAMES:
        tree.add(f"connect to {name}: timed out after 3 s (try 2)")
    group = tree.add("connect to zoe: timed out after 10 s (try 9)")
    assert tree.template(group) == "connect to <*>: timed out after <*> (try <*>)"


def test_an_unknown_group_has_no_template() -> None:
    with pytest.raises(KeyError):
        TemplateTree().template(0)


def test_finding_does_not_learn() -> None:
    tree = TemplateTree()
    assert tree.find("a new line of text") is None
    group = tree.add("a new line of text")
    before = tree.dump()
    assert tree.find("a new line of text") == group
    assert tree.find("something else") is None
    assert tree.dump() == before


def test_a_line_is_found_after_it_was_added_and_old_numbers_lead_to_new_ones() -> None:
    tree = TemplateTree()
    given_numbers = [tree.add(f"session closed for user {name}") for name in NAMES]
    assert {tree.current(number) for number in given_numbers} == {0}
    assert tree.find("session closed for user ann") == 0
    assert {tree.template(number) for number in given_numbers} == {"session closed for user <*>"}


@given(st.lists(LINE, max_size=30), st.lists(LINE, max_size=15), st.booleans())
def test_a_loaded_tree_behaves_like_the_one_that_was_dumped(first: list[str], later: list[str], settled: bool) -> None:
    tree = TemplateTree()
    for line in first:
        tree.add(line)
    if settled:
        tree.settle()
    other = TemplateTree.load(json.loads(json.dumps(tree.dump())))
    assert other.dump() == tree.dump()
    for line in later:
        assert other.find(line) == tree.find(line)
        assert other.add(line) == tree.add(line)
    tree.settle()
    other.settle()
    assert other.dump() == tree.dump()


@given(st.lists(LINE, max_size=30))
def test_the_same_lines_give_the_same_groups_and_every_line_has_one(lines: list[str]) -> None:
    groups = group_lines(lines)
    assert groups == group_lines(list(lines))
    tree = TemplateTree()
    numbers = [tree.add(line) for line in lines]
    for line, number in zip(lines, numbers, strict=True):
        found = tree.find(line)
        assert found is not None
        assert tree.template(found) == tree.template(number) or tree.current(number) != found
    tree.settle()
    assert all(tree.find(line) is not None for line in lines)


@given(st.lists(st.text(max_size=60), max_size=10))
def test_any_text_can_be_added(lines: list[str]) -> None:
    tree = TemplateTree()
    for line in lines:
        assert tree.template(tree.add(line)) is not None
        assert len(tokens(line)) <= MAX_TOKENS + 1


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=6))
@settings(max_examples=30)
def test_numbers_never_make_a_group(numbers: list[int]) -> None:
    assert together(*(f"worker {number} of pool took {number} ms" for number in numbers))


BROKEN: list[JsonValue] = [
    None,
    [],
    {"groups": [0], "values": [], "templates": [[["a"], 1]]},
    {"groups": [0], "values": [], "templates": []},
    {"groups": [1, 1], "values": [], "templates": [[["a"], 1]]},
    {"groups": [0], "values": [], "templates": [[[""], 0]]},
    {"groups": [0], "values": [], "templates": [[["a"], 0]], "more": 1},
]


@pytest.mark.parametrize("state", BROKEN)
def test_what_is_no_dump_is_refused(state: JsonValue) -> None:
    with pytest.raises(ValueError, match=r"."):
        TemplateTree.load(state)


@pytest.mark.parametrize("unit", ["a ", "ab:", "1 ", "x=", "( ) ", "a", "<*> ", "<**> ", "ann ", "'a' "])
def test_a_very_long_line_is_cut(unit: str) -> None:
    tree = TemplateTree()
    for name in NAMES:
        tree.add(f"a {name} a b")
    start = time.thread_time()
    tree.add(unit * 200_000)
    tree.find(unit * 200_000 + "b")
    assert time.thread_time() - start < 2


def test_ten_thousand_groups_stay_fast() -> None:
    random = Random(5)
    words = ["".join(random.choices("abcdefghijklmnop", k=6)) for _ in range(3000)]
    forms = [random.choices(words, k=10) for _ in range(10_000)]
    tree = TemplateTree()
    for number, form in enumerate(forms):
        tree.add(" ".join([*form, str(number)]))
    lines = [" ".join([*form, "77"]) for form in random.sample(forms, 2000)]
    start = time.thread_time()
    for line in lines:
        tree.add(line)
    assert (time.thread_time() - start) / len(lines) < 0.001


def test_a_detail_in_brackets_that_may_be_missing_is_no_part_of_the_event() -> None:
    lines = [
        "replica 7 lost its leader node-a.acme.net:9092",
        "replica 8 lost its leader node-b.acme.net:9093 [epoch 12]",
        "replica 9 lost its leader node-c.acme.net:9094 [epoch 4711]",
        "replica 9 is behind its leader node-c.acme.net:9094",
    ]
    for order in permutations(lines):
        groups = dict(zip(order, group_lines(order), strict=True))
        assert len({groups[line] for line in lines[:3]}) == 1
        assert len(set(groups.values())) == 2
        tree = TemplateTree()
        told = {line: tree.add(line) for line in order}
        assert len({tree.current(told[line]) for line in lines[:3]}) == 1
        assert TemplateTree.load(tree.dump()).dump() == tree.dump()


def test_brackets_that_say_what_happened_tell_events_apart() -> None:
    lines = ["the disk sda failed (temperature 90)", "the disk sda failed (sector 17)", "the disk sda failed"]
    assert len(set(group_lines(lines))) == 3
    words = ["the disk sda failed (read only)", "the disk sda failed"]
    assert len(set(group_lines(words))) == 2


def test_two_brackets_alike_are_removed_once() -> None:
    words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    lines = [f"the job of {word} was stopped [7] was [8]" for word in words]
    lines += [f"the job of {word} was stopped [7] [8]" for word in words]
    assert len(set(group_lines(lines))) <= 2


@pytest.mark.parametrize(("one", "other"), [("up", "down"), ("true", "false"), ("Open", "Closed"), ("yes", "no")])
def test_a_word_with_an_opposite_is_never_a_value(one: str, other: str) -> None:
    lines = [f"the port {number} of switch {number} is {word}" for number in range(9) for word in (one, other)]
    assert len(set(group_lines(lines))) == 2
    many = [f"the port of the switch is {word}" for word in ("idle", "busy", "lost", "new", "alone")]
    tree = TemplateTree()
    for line in many:
        tree.add(line)
    tree.settle()
    assert len({tree.find(line) for line in many}) == 1
    assert tree.find(f"the port of the switch is {one}") is None
    assert tree.add(f"the port of the switch is {one}") != tree.add(f"the port of the switch is {other}")


def test_what_was_redacted_is_a_value() -> None:
    lines = [f"refused {host} at the gate" for host in ("[personal:ip:ab12cd34]", "10.0.0.1", "[secret:github-token]")]
    assert len(set(group_lines(lines))) == 1
