"""What a skill may say, and that nothing else is done."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidInput
from engram.memories.skills import (
    FILTERS,
    MAX_OUTPUT,
    check_skill,
    escape_template,
    fill_parameters,
    match_pattern,
    parse_values,
    read_skill,
    render_steps,
    to_yaml,
)
from engram.model.skill import Parameter, Skill, SkillDefinition, SkillStep, Triggers

DEPLOY = """
name: deploy
description: Bring a service to production
triggers:
  phrases: [ship it]
  patterns: ['deploy (?P<service>[a-z-]+)(?: with (?P<replicas>\\d+) replicas)?']
  examples: [release the new build]
parameters:
  service: {type: string, required: true, description: What to deploy}
  replicas: {type: integer, default: 2}
  ratio: {type: number}
  dry: {type: boolean, default: false}
  hosts: {type: list, default: [a, b]}
  stage: {type: choice, choices: [test, live], default: test}
steps:
- Check that {{ service }} is ready for {{ stage }}.
- name: roll out
  action: deploy --service {{ service | quote }} --replicas {{ replicas }}{% if dry %} --dry-run{% endif %}
- prompt: |
    {% for host in hosts %}
    {{ loop.index }}. look at {{ host }}
    {% endfor %}
"""


def skill(*templates: str, **parameters: Parameter) -> SkillDefinition:
    return SkillDefinition(
        name="mine",
        description="Does something",
        parameters=parameters,
        steps=tuple(SkillStep(prompt=template) for template in templates),
    )


def render(template: str, **values: Any) -> str:
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean", list: "list", type(None): "string"}
    parameters = {name: Parameter.model_validate({"type": kinds[type(value)]}) for name, value in values.items()}
    return render_steps(check_skill(skill(template, **parameters)), values)[0]


def test_a_skill_is_read_from_yaml_from_a_file_and_from_a_mapping(tmp_path: Path) -> None:
    read = read_skill(DEPLOY)
    assert read.steps[0].kind == "prompt"
    assert (read.steps[1].kind, read.steps[1].name) == ("action", "roll out")
    file = tmp_path / "deploy.yaml"
    file.write_text(DEPLOY)
    assert read_skill(file) == read
    assert read_skill(read.model_dump(mode="json", exclude_defaults=True)) == read
    assert read_skill("{name: a, description: b, triggers: [say a], steps: [c]}").triggers == Triggers(
        phrases=("say a",)
    )


def test_the_steps_are_filled_in() -> None:
    assert render_steps(read_skill(DEPLOY), {"service": "shop; rm -rf /", "dry": True}) == [
        "Check that shop; rm -rf / is ready for test.",
        "deploy --service 'shop; rm -rf /' --replicas 2 --dry-run",
        "1. look at a\n2. look at b",
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "needs service"),
        ({"service": None}, "needs service"),
        ({"service": 3}, "must be a text, not int"),
        ({"service": "x", "colour": "red"}, "has no parameter 'colour'; it has: service, replicas"),
        ({"service": "x", "replicas": "3"}, "must be a whole number"),
        ({"service": "x", "replicas": True}, "must be a whole number"),
        ({"service": "x", "replicas": 2**63}, "must be a whole number"),
        ({"service": "x", "ratio": float("inf")}, "must be a number"),
        ({"service": "x", "ratio": "1"}, "must be a number"),
        ({"service": "x", "dry": 1}, "must be true or false"),
        ({"service": "x", "hosts": "a"}, "must be a list"),
        ({"service": "x", "hosts": [["a"]]}, "must be a list"),
        ({"service": "x", "hosts": ["a"] * 1001}, "must be a list"),
        ({"service": "x", "stage": "moon"}, r"one of its choices \(test, live\)"),
        ({"service": "x" * 100_001}, "more than 100,000 characters"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        render_steps(read_skill(DEPLOY), values)


def test_values_on_a_command_line_are_read_by_their_type() -> None:
    read = read_skill(DEPLOY)
    texts = {"service": "7", "replicas": "3", "ratio": "0.5", "dry": "yes", "hosts": "x, y,", "stage": "live"}
    values = fill_parameters(read, parse_values(read, texts))
    assert values == {"service": "7", "replicas": 3, "ratio": 0.5, "dry": True, "hosts": ["x", "y"], "stage": "live"}
    for name in ("replicas", "ratio", "dry"):
        with pytest.raises(InvalidInput, match=f"{name} must be"):
            parse_values(read, {name: "many"})
    with pytest.raises(InvalidInput, match="no parameter"):
        fill_parameters(read, parse_values(read, {"colour": "red"}))


def test_a_pattern_tells_parameters() -> None:
    read = read_skill(DEPLOY)
    assert match_pattern(read, "Please DEPLOY shop with 3 replicas") == (
        read.triggers.patterns[0],
        {"service": "shop", "replicas": 3},
    )
    assert match_pattern(read, "deploy the-shop now") == (read.triggers.patterns[0], {"service": "the-shop"})
    assert match_pattern(read, "nothing of that") is None


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("name: a\ndescription: b\nsteps: [{prompt: c, action: d}]", "line 3: steps.0: a step has either"),
        ("name: a\ndescription: b\nsteps: [{name: c}]", "either a prompt or an action"),
        ("name: a\ndescription: b\nsteps: []", "line 3: steps"),
        ("name: A B\ndescription: b\nsteps: [c]", "line 1: name"),
        ("name: a\ndescription: b\nsteps: [c]\nowner: me", "line 4: owner: Extra inputs"),
        ("name: a\ndescription: b\nsteps: [c]\nparameters: {x: {type: date}}", "line 4: parameters.x.type"),
        ("name: a\ndescription: b\nsteps: [c]\nparameters: {x: {type: choice}}", "needs some"),
        ("name: a\ndescription: b\nsteps: [c]\nparameters: {x: {required: true, default: y}}", "keep one"),
        (
            "name: a\ndescription: b\nsteps: [c]\nparameters: {x: {type: integer, default: y}}",
            "default of x must be a whole",
        ),
        ("name: a\ndescription: b\nsteps: [c]\nparameters: {__x: {}}", "cannot name a parameter"),
        ("name: a\ndescription: b\nsteps: [c]\nparameters: {self: {}}", "cannot name a parameter"),
        ("name: a\ndescription: b\nsteps: [c]\ntriggers: {patterns: ['(a']}", "cannot be used: missing"),
        ("name: a\ndescription: b\nsteps: [c]\ntriggers: {patterns: ['(a)\\1']}", "cannot be used"),
        ("name: a\ndescription: b\nsteps: [c]\ntriggers: {patterns: ['((a{1000}){1000}){1000}']}", "cannot be used"),
        ("name: a\ndescription: b\nsteps: [c]\ntriggers: ['']", "a phrase or an example has 1 to"),
        ("name: a\ndescription: b\nsteps: !!python/object/apply:os.system [id]", "line 3: it has the tag"),
        ("name: &a a\ndescription: *a\nsteps: [c]", "line 1: it has the anchor"),
    ],
)
def test_what_is_no_skill_is_refused_with_its_place(yaml: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_skill(yaml)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "template",
    [
        "{{ x.__class__ }}",
        "{{ x['__class__'] }}",
        "{{ x|attr('__class__') }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ x.upper() }}",
        "{{ x.upper }}",
        "{{ x.format(x) }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler('a') }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ joiner() }}",
        "{{ namespace() }}",
        "{{ lipsum() }}",
        "{{ dict() }}",
        "{{ config }}",
        "{{ range }}",
        "{{ loop }}",
        "{% for a in l %}{{ loop }}{% endfor %}",
        "{% for a in l %}{{ loop.__class__ }}{% endfor %}",
        "{% for a in l %}{{ loop.cycle('a') }}{% endfor %}",
        "{% for a in l recursive %}{{ loop(l) }}{% endfor %}",
        "{% for range in l %}{{ range }}{% endfor %}",
        "{{ range(*l) }}",
        "{{ range(**x) }}",
        "{{ x|upper(*l) }}",
        "{% import 'os' as os %}",
        "{% from 'os' import path %}",
        "{% include '/etc/passwd' %}",
        "{% extends 'a' %}",
        "{% block a %}{% endblock %}",
        "{% macro a() %}{% endmacro %}",
        "{% call a() %}{% endcall %}",
        "{% set y = x %}{{ y }}",
        "{% with y = x %}{{ y }}{% endwith %}",
        "{% filter upper %}a{% endfilter %}",
        "{% autoescape true %}{% endautoescape %}",
        "{% do l.append(1) %}",
        "{{ x|map('upper') }}",
        "{{ l|selectattr('__class__') }}",
        "{{ l|groupby('__class__') }}",
        "{{ x|format(x) }}",
        "{{ x|pprint }}",
        "{{ x|xmlattr }}",
        "{{ x|center(1000000000) }}",
        "{{ l|random }}",
        "{{ x * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ x ~ x }}",
        "{{ {'a': x} }}",
        "{{ y }}",
        "{{ x is callable }}",
        "{{ x is sameas x }}",
        "{{ x",
        "{% if x %}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "1+" * 5000 + "1 }}",
        "{{ " + "not " * 4000 + "1 }}",
        "{{ " + "-" * 4000 + "1 }}",
        "{% if x %}" * 200 + "{% endif %}" * 200,
        "{% for a in l %}" * 4 + "{% endfor %}" * 4,
        "{{ " + "9" * 5000 + " }}",
        "{{ 1e999 }}",
        "{{ [1, -1e999]|sort }}",
        "{{ ('a'[5] or 1)|last }}",
        "x" * 20_001,
    ],
)
def test_what_a_template_may_not_say_is_refused_before_anything_is_kept(template: str) -> None:
    with pytest.raises(InvalidInput, match="skill mine, step 2"):
        check_skill(skill("fine", template, x=Parameter(), l=Parameter(type="list")))


@pytest.mark.parametrize(
    "template",
    [
        "{{ x + x }}",
        "{{ l + l }}",
        "{{ x[n] }}{{ n[0] }}",
        "{{ x['up' if n else 'a'] }}",
        "{{ range(100000000) | length }}",
        "{% for a in range(1001) %}{% endfor %}",
        "{% for a in range(n, 100000000000000000000) %}{% endfor %}",
        "{% for a in range(0, 10, 0) %}{% endfor %}",
        "{% for a in range(x) %}{% endfor %}",
        "{% for a in x %}{% for b in x %}{% for c in x %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in range(999) %}{{ x }}{% endfor %}",
        "{{ x|join(x)|length }}",
        "{{ x|replace('a', x)|length }}",
        "{{ x|replace('', x) }}",
        "{{ x|indent(1000000000) }}",
        "{{ [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x]|tojson|length }}",
        "{{ [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x] }}",
        "{{ range(3) }}",
        "{{ l|upper }}",
        "{{ n|join }}",
        "{{ n > x }}",
        "{{ x[::0] }}",
        "{{ l[99] }}",
        "{{ x|int }}",
        "{{ x|round }}",
        "{{ (n + 1e308 + 1e308)|round }}",
        "{% for a in l %}{% endfor %}{{ a }}",
        "{{ x|truncate(0) }}",
        "{{ x|upper(1) }}",
    ],
)
def test_what_a_template_must_not_do_is_stopped(template: str) -> None:
    started = time.thread_time()
    with pytest.raises(InvalidInput, match="skill mine, step 1"):
        render(template, x="a" * 10_000, l=["b", "a"], n=3)
    assert time.thread_time() - started < 2


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ x }} {{ n }} {{ yes }} {{ l }} {{ gone }}|", "Ann 3 true b, a, b |"),
        ("{{ x|upper }} {{ x|lower }} {{ 'a b'|title }} {{ 'ab'|capitalize }}", "ANN ann A B Ab"),
        (
            "{{ l|sort|unique|join('/') }} {{ l|reverse }} {{ l|first }} {{ l|last }} {{ l|length }}",
            "a/b b, a, b b b 3",
        ),
        ("{{ gone|default('none given') }} {{ x|default('y') }}", "none given Ann"),
        ("{{ x|replace('n', 'm') }} {{ '  a '|trim }} {{ 'abcdef'|truncate(3) }}", "Amm a ab…"),
        ("{{ 2.567|round(1) }} {{ 2.5|round }} {{ '7'|int + 1 }} {{ n - 1 }} {{ -n }}", "2.6 2 8 2 -3"),
        ("{{ ['a', 1, true]|tojson }} {{ 'it is'|quote }}", "[\"a\", 1, true] 'it is'"),
        ("a: {{ 'b\nc'|indent(2) }}", "a: b\n  c"),
        ("{{ x[0] }} {{ x[:2] }} {{ l[-1] }}", "A An b"),
        ("{% if n > 2 and x in ['Ann'] and gone is none %}yes{% elif n %}no{% else %}-{% endif %}", "yes"),
        (
            "{{ 'odd' if n is odd else 'even' }} {{ x is string }} {{ n is number }} {{ x is defined }}",
            "odd true true true",
        ),
        ("{% for i in range(1, 4) %}{{ i }}{{ ',' if not loop.last }}{% endfor %}", "1,2,3"),
        ("{% for a in l if a != 'a' %}{{ loop.index }}{{ a }}/{{ loop.length }} {% else %}-{% endfor %}", "1b/2 2b/2"),
        ("{# a comment #}{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ n is even }}", "false"),
    ],
)
def test_what_a_template_can_say(template: str, text: str) -> None:
    assert render(template, x="Ann", n=3, yes=True, l=["b", "a", "b"], gone=None) == text


def test_every_filter_is_shown_above() -> None:
    shown = test_what_a_template_can_say.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert [name for name in FILTERS if not any(f"|{name}" in template for template, _ in shown)] == []


def test_a_value_is_never_a_template() -> None:
    assert render("{{ x }}", x="{{ 7 - 1 }}{% import 'os' %}") == "{{ 7 - 1 }}{% import 'os' %}"


def test_long_output_ends_before_it_is_made() -> None:
    assert len(render("{% for a in range(20) %}{{ x }}{% endfor %}", x="a" * (MAX_OUTPUT // 20))) == MAX_OUTPUT


@given(st.text("{}%#'\" \\ax\n-", max_size=40))
def test_a_literal_text_stays_as_it_is(text: str) -> None:
    if text.strip():
        assert render_steps(check_skill(skill(escape_template(text))), {}) == [text.strip()]


@given(st.text(max_size=60))
def test_any_template_is_used_or_refused(text: str) -> None:
    try:
        render_steps(check_skill(skill(text or "a", x=Parameter())), {"x": "y"})
    except (InvalidInput, ValueError) as error:
        assert str(error)  # noqa: PT017


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=30
) | st.sampled_from(
    [
        "yes",
        "0o17",
        "1e3",
        "08",
        "12:30",
        "null",
        "~",
        "- a",
        "a: b",
        "# c",
        "a\nb\n",
        "  a\n b",
        "a \nb",
        "\n",
        "=",
        "<<",
        "2024-05-01",
    ]
)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.lists(TEXTS, min_size=1, max_size=3))
def test_a_skill_written_as_yaml_is_read_back_the_same(text: str, examples: list[str], steps: list[str]) -> None:
    written = SkillDefinition(
        name="mine",
        description=text,
        triggers=Triggers(examples=tuple(one for one in examples if one.strip())),
        parameters={"x": Parameter(default=text), "l": Parameter(type="list", default=[text, 1, 2.5])},
        steps=tuple(SkillStep(action=escape_template(step), name=text) for step in [*steps, "end"] if step.strip()),
    )
    assert read_skill(to_yaml(written)) == written


def test_a_version_gives_back_what_was_written_down() -> None:
    read = read_skill(DEPLOY)
    kept = Skill.model_validate({**dict(read), "id": "1", "version": 3, "added_at": "2026-01-01T00:00:00Z"})
    assert kept.definition == read
    assert kept.action == "skill:deploy@3"
    assert read_skill(to_yaml(read)) == read


def test_the_steps_share_what_their_loops_may_do() -> None:
    loop = "{% for a in range(900) %}{{ a }} {% endfor %}"
    assert len(render_steps(check_skill(skill(loop)), {})) == 1
    with pytest.raises(InvalidInput, match="its loops go around too often"):
        render_steps(check_skill(skill(*[loop] * 10)), {})
