from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, JsonValue

from engram.errors import InvalidInput
from engram.model.content import Frozen
from engram.text.safe_yaml import DEEPEST, MOST_BYTES, read_as, read_yaml, validate_as


class Rule(Frozen):
    name: str
    weights: tuple[int, ...] = ()


class Rules(Frozen):
    rules: tuple[Rule, ...] = Field(min_length=1)


def refusal(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_yaml(text, "the rule")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a:", {"a": None}),
        ("- ~\n- null\n- 'null'", [None, None, "null"]),
        ("- true\n- False\n- yes\n- no\n- on\n- off", [True, False, "yes", "no", "on", "off"]),
        ("- 7\n- -7\n- +7\n- 007\n- 0x1F\n- 0o17", [7, -7, 7, 7, 31, 15]),
        ("- 1.5\n- .5\n- 1.\n- 1e3\n- -2.5e-1", [1.5, 0.5, 1.0, 1000.0, -0.25]),
        ("- 12:30\n- 2024-05-01\n- 1_000\n- 1.2.3", ["12:30", "2024-05-01", "1_000", "1.2.3"]),
        ("1: a\ntrue: b", {"1": "a", "true": "b"}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("\ufeffa: 1", {"a": 1}),
        ('"<<": 1', {"<<": 1}),
    ],
)
def test_a_text_is_read_as_it_is_written(text: str, value: JsonValue) -> None:
    assert read_yaml(text, "the rule") == value


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: &x 2\n", 2, "anchor &x"),
        ("a: 1\nb: *x\n", 2, "alias *x"),
        ("a: !!python/object/apply:os.system ['id']", 1, "tag tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: !!str 1", 1, "tag"),
        ("a: !mine 1", 1, "tag !mine"),
        ("a: ! 1", 1, "tag !"),
        ("!!map {a: 1}", 1, "tag"),
        ("a: 1\nb: 2\na: 3", 3, "repeats the key 'a' of line 1"),
        ("x: 1\n<<: {a: 1}", 2, "merge key"),
        ("? [a, b]\n: 1", 1, "as a key"),
        ("? {a: b}\n: 1", 1, "as a key"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("a: .inf", 1, "not finite"),
        ("a: 1e999", 1, "too large"),
        ("a: " + "9" * 5000, 1, "5000 digits"),
        ("a: 1\nb: [1, 2", 2, "is not YAML"),
        ("a: 1\n\tb: 2", 2, "is not YAML"),
        ("a: 'open", 1, "is not YAML"),
        ('a: "\\ud800"', 1, ""),
    ],
)
def test_what_is_dangerous_or_unclear_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    said = refusal(text)
    assert said.startswith(f"the rule, line {line}: ")
    assert words in said


def test_a_bomb_of_aliases_is_refused_before_anything_is_built() -> None:
    bomb = 'a: &a ["x","x"]\n' + "".join(
        f"{b}: &{b} [*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "anchor &a" in refusal(bomb)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_nesting_has_an_end(opening: str) -> None:
    assert f"deeper than {DEEPEST}" in refusal(opening * 100_000)


def test_the_deepest_nesting_is_read() -> None:
    value = read_yaml("[" * DEEPEST + "]" * DEEPEST, "the rule")
    for _ in range(DEEPEST - 1):
        assert isinstance(value, list)
        value = value[0]
    assert value == []


def test_size_has_an_end() -> None:
    assert read_yaml("a" * MOST_BYTES, "the rule") == "a" * MOST_BYTES
    assert "larger than 1,000,000 bytes" in refusal("é" * (MOST_BYTES // 2 + 1))


@pytest.mark.parametrize(
    "text", ["!" + "t" * 9000 + " 1", "&" + "t" * 9000 + " 1", "*" + "t" * 9000, ("k" * 900 + ": 1\n") * 2]
)
def test_a_refusal_stays_short(text: str) -> None:
    assert len(refusal(text)) < 250


def test_control_characters_and_half_characters_are_refused() -> None:
    assert "does not allow" in refusal("a: \x07")
    assert "not valid Unicode" in refusal("a: \ud800")


def test_a_file_is_read_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\n")
    assert read_yaml(good, "the rule") == {"name": "café"}
    assert read_yaml(good.read_bytes(), "the rule") == {"name": "café"}
    bad = tmp_path / "bad.yaml"
    bad.write_bytes(b"name: x\nother: caf\xe9\n")
    with pytest.raises(InvalidInput, match="the rule, line 2: it is not UTF-8"):
        read_yaml(bad, "the rule")
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(InvalidInput, match="larger than"):
        read_yaml(large, "the rule")
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_yaml(path, "the rule")


def test_without_the_compiled_parser_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read_yaml("a: [1, 'x', {b: ~}]", "the rule") == {"a": [1, "x", {"b": None}]}
    assert f"deeper than {DEEPEST}" in refusal("[" * 100_000)
    assert "line 2" in refusal("a: 1\nb: &x 2\n")
    assert "half of a surrogate" in refusal('a: "\\ud800"')
    assert "does not allow" in refusal("a: \x07")


def test_a_value_that_does_not_fit_names_its_line_and_place() -> None:
    assert read_as("name: a\nweights: [1, 2]", "the rule", Rule) == Rule(name="a", weights=(1, 2))
    with pytest.raises(InvalidInput, match=r"the rule does not fit: line 4: weights\.1: .*integer"):
        read_as("name: a\nweights:\n- 1\n- x\n", "the rule", Rule)
    with pytest.raises(InvalidInput, match=r"line 1: name: Field required; line 2: extra: Extra inputs"):
        read_as("weights: []\nextra: 1", "the rule", Rule)
    with pytest.raises(InvalidInput, match="line 1: Input should be"):
        read_as("[]", "the rule", Rule)
    with pytest.raises(
        InvalidInput, match=r"the rule does not fit: line 2: rules\.0\.weights: Input should be a list; cor"
    ):
        read_as("rules:\n- {name: a, weights: 3}\n", "the rule", Rules)
    with pytest.raises(InvalidInput, match="the rule does not fit: line 1: Input should be a mapping of names"):
        read_as("- a", "the rule", Rules)
    with pytest.raises(InvalidInput, match=r"only the text 'rules\.yaml'; give YAML, or a file as a `pathlib\.Path`"):
        read_as("rules.yaml", "the rule", Rules)
    with pytest.raises(InvalidInput, match="line 1: rules: Tuple should have at least 1"):
        read_as("rules: []", "the rule", Rules)
    with pytest.raises(InvalidInput, match="the rule does not fit: name: Field required"):
        validate_as({}, "the rule", Rule)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc<é", max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_is_read_as_json(value: JsonValue) -> None:
    assert read_yaml(json.dumps(value, ensure_ascii=False), "the rule") == value


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        json.dumps(read_yaml(text, "the rule"), allow_nan=False).encode()
    except InvalidInput as error:
        assert str(error)  # noqa: PT017
