"""Settings come from one place each, and a wrong one is a clear error."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from engram import config
from engram.errors import ConfigError


def test_each_source_wins_over_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGRAM_EMBEDDER")
    inner = tmp_path / "project" / "deep"
    inner.mkdir(parents=True)
    assert config.load(folder=inner).embedder == "auto"
    config.user_file().parent.mkdir(parents=True)
    config.user_file().write_text('embedder = "of-the-user"\nagent = "alice"\n')
    assert config.load(folder=inner).embedder == "of-the-user"
    (tmp_path / "project" / "engram.toml").write_text('embedder = "of-the-project"\ndb = "data/team.db"\n')
    found = config.origins(folder=inner)
    assert (found["embedder"].value, found["agent"].value) == ("of-the-project", "alice")
    assert found["embedder"].origin.endswith("engram.toml")
    assert found["db"].value == str(tmp_path / "project" / "data" / "team.db")
    monkeypatch.setenv("ENGRAM_EMBEDDER", "of-the-environment")
    assert config.load(folder=inner).embedder == "of-the-environment"
    assert config.load({"embedder": "given"}, inner).embedder == "given"
    assert config.load({"embedder": None}, inner).embedder == "of-the-environment"


def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no setting 'databse'"):
        config.load({"databse": "x"})
    (tmp_path / "engram.toml").write_text('embeder = "hashing"\n')
    with pytest.raises(ConfigError, match=r"embeder.*unknown"):
        config.load(folder=tmp_path)


def test_a_malformed_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "engram.toml").write_text("this is not toml")
    with pytest.raises(ConfigError, match=r"engram\.toml cannot be read"):
        config.load(folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("durable", "no", False), ("durable", "TRUE", True), ("busy_seconds", "2.5", 2.5), ("busy_seconds", "3", 3.0)],
)
def test_the_environment_is_read_as_what_the_setting_is(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ENGRAM_{name.upper()}", text)
    assert getattr(config.load(), name) == value


@pytest.mark.parametrize(("name", "text"), [("durable", "perhaps"), ("busy_seconds", "long"), ("busy_seconds", "-1")])
def test_a_value_of_the_wrong_kind_is_an_error(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ENGRAM_{name.upper()}", text)
    with pytest.raises(ConfigError, match=f"{name} .*must be"):
        config.load()


def test_a_variable_that_looks_like_a_setting_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDER", "hashing")
    assert "ENGRAM_EMBEDER" in config.unknown_variables()


def test_every_setting_has_a_description() -> None:
    assert {field.name for field in fields(config.Settings)} == config.HELP.keys()
