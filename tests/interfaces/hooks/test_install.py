"""Configuring coding agents: what is there stays, what was added goes again, byte for byte."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.cli.install import command as install_command
from engram.cli.invocation import Invocation
from engram.cli.uninstall import command as uninstall_command
from engram.errors import ConfigError, Conflict, InvalidInput
from engram.hooks.install import BEGIN, EVENTS, Client, Installation, install, planned_changes, uninstall

CLIENTS: list[Client] = ["claude", "codex", "cursor"]
OTHER = {"mcpServers": {"other": {"command": "other"}}, "theme": "dark", "hooks": {"Stop": [{"hooks": []}]}}


@pytest.fixture
def wish(tmp_path: Path) -> Installation:
    (tmp_path / "my home").mkdir()
    (tmp_path / "project").mkdir()
    return Installation("claude", home=tmp_path / "my home", folder=tmp_path / "project")


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("client", CLIENTS)
def test_installing_into_an_empty_folder_and_undoing_it_leaves_nothing(
    wish: Installation, client: Client, scope: Any
) -> None:
    own = replace(wish, client=client, scope=scope)
    base = wish.home if scope == "user" else wish.folder
    assert len(install(own)) == 2
    assert install(own) == []
    assert len(tree(base)) >= 2
    assert len(uninstall(own)) == 2
    assert tree(base) == {}
    assert uninstall(own) == []


def test_claude_gets_a_server_and_a_hook_for_each_event(wish: Installation) -> None:
    install(replace(wish, agent="alice", db="team.db", block=True))
    server = loaded(wish.home / ".claude.json")["mcpServers"]["engram"]
    assert server["type"] == "stdio"
    assert server["args"][:4] == ["-P", "-m", "engram", "mcp"]
    assert server["args"][4:] == ["--agent", "alice", "--db", str(Path("team.db").absolute()), "--no-project"]
    hooks = loaded(wish.home / ".claude" / "settings.json")["hooks"]
    assert list(hooks) == list(EVENTS["claude"])
    (group,) = hooks["PreToolUse"]
    assert "Bash" in group["matcher"]
    (hook,) = group["hooks"]
    assert "-m engram.hooks PreToolUse --client claude --agent alice" in hook["command"]
    assert hook["command"].endswith("--no-project --block")


def test_a_project_names_the_command_and_not_this_machine(wish: Installation) -> None:
    install(replace(wish, scope="project"))
    assert loaded(wish.folder / ".mcp.json")["mcpServers"]["engram"]["command"] == "engram"
    text = (wish.folder / ".claude" / "settings.json").read_text(encoding="utf-8")
    assert '"engram hook Stop --client claude"' in text
    assert str(wish.home) not in text


def test_codex_gets_a_marked_block_of_toml(wish: Installation) -> None:
    own, file = replace(wish, client="codex"), wish.home / ".codex" / "config.toml"
    file.parent.mkdir()
    before = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "other"'
    file.write_text(before, encoding="utf-8")
    install(own)
    text = file.read_text(encoding="utf-8")
    assert text.startswith(before)
    assert BEGIN in text
    assert tomllib.loads(text)["mcp_servers"]["engram"]["args"][-1] == "--no-project"
    assert set(tomllib.loads(text)["mcp_servers"]) == {"other", "engram"}
    file.write_text(text + '\n[new]\nkey = "kept"\n', encoding="utf-8")
    uninstall(own)
    rest = tomllib.loads(file.read_text(encoding="utf-8"))
    assert rest == tomllib.loads(before) | {"new": {"key": "kept"}}


def test_cursor_gets_its_own_form(wish: Installation) -> None:
    install(replace(wish, client="cursor"))
    hooks = loaded(wish.home / ".cursor" / "hooks.json")
    assert hooks["version"] == 1
    assert hooks["hooks"]["beforeSubmitPrompt"][0]["command"].endswith("--client cursor --no-project")


@pytest.mark.parametrize("client", CLIENTS)
def test_what_others_wrote_stays_and_what_they_change_meanwhile_is_kept(wish: Installation, client: Client) -> None:
    own = replace(wish, client=client)
    files = [change.path for change in planned_changes(own) if change.path.suffix == ".json"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(OTHER, indent=4), encoding="utf-8")
    install(own)
    for file in files:
        both = loaded(file)
        assert both["theme"] == "dark"
        assert both["mcpServers"]["other"] == {"command": "other"}
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace('"dark"', '"light"'), encoding="utf-8")
    uninstall(own)
    for file in files:
        assert file.read_text(encoding="utf-8") == json.dumps(OTHER | {"theme": "light"}, indent=4)


def test_a_server_of_the_same_name_is_not_replaced_and_then_nothing_is_changed(wish: Installation) -> None:
    (wish.home / ".claude.json").write_text('{"mcpServers": {"engram": {"command": "elsewhere"}}}', encoding="utf-8")
    before = tree(wish.home)
    with pytest.raises(Conflict, match="already has a server called engram"):
        install(wish)
    assert tree(wish.home) == before
    assert uninstall(wish) == []
    assert tree(wish.home) == before


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"a": 1} // comment'])
def test_a_file_that_cannot_be_understood_is_not_touched(wish: Installation, text: str) -> None:
    file = wish.home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    before = tree(wish.home)
    with pytest.raises(Conflict, match="was not changed"):
        install(wish)
    assert tree(wish.home) == before


def test_installing_again_with_other_wishes_replaces_and_undoing_goes_back_to_the_beginning(wish: Installation) -> None:
    file = wish.home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text('{\n\t"theme": "dark"\n}\n', encoding="utf-8")
    before = tree(wish.home)
    install(wish)
    install(replace(wish, agent="bob"))
    install(replace(wish, block=True))
    text = file.read_text(encoding="utf-8")
    assert text.count("UserPromptSubmit --client") == 1
    assert "bob" not in text
    uninstall(wish)
    assert tree(wish.home) == before


def test_the_rights_of_a_file_and_a_link_to_it_stay(wish: Installation, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o600)
    (wish.home / ".claude.json").symlink_to(real)
    install(wish)
    assert (wish.home / ".claude.json").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert "engram" in real.read_text(encoding="utf-8")


def test_a_password_is_not_written_into_a_client_s_files(wish: Installation) -> None:
    with pytest.raises(InvalidInput, match="contains a password"):
        install(replace(wish, db="postgresql://me:secret@host/db"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
entries = st.dictionaries(st.text(max_size=6).filter(lambda name: name != "engram"), values, max_size=3)
hooked = st.dictionaries(
    st.sampled_from([*EVENTS["claude"], *EVENTS["cursor"], "Other"]), st.lists(entries, max_size=2)
)
documents = st.fixed_dictionaries({}, optional={"mcpServers": entries, "hooks": hooked, "version": st.just(1)}).flatmap(
    lambda known: entries.map(lambda more: {**more, **known})
)
layouts = st.sampled_from([None, 1, 2, 4, "\t"])


@settings(max_examples=150)
@given(
    document=documents,
    indent=layouts,
    end=st.sampled_from(["", "\n", "\r\n", "  \n\n"]),
    windows=st.booleans(),
    plain=st.booleans(),
    client=st.sampled_from(CLIENTS),
    forget=st.booleans(),
)
def test_any_configuration_is_put_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory,
    document: dict[str, Any],
    indent: Any,
    end: str,
    windows: bool,
    plain: bool,
    client: Client,
    forget: bool,
) -> None:
    home = tmp_path_factory.mktemp("home")
    own = Installation(client, home=home, folder=home)
    text = json.dumps(document, indent=indent, ensure_ascii=plain) + end
    data = (text.replace("\n", "\r\n") if windows else text).encode("utf-8", "replace")
    files = [change.path for change in planned_changes(own) if change.path.suffix == ".json"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    before = tree(home)
    install(own)
    for file in files:
        after = json.loads(file.read_bytes())
        assert "engram" in json.dumps(after)
        for name, value in json.loads(data).items():
            if name not in {"mcpServers", "hooks"}:
                assert after[name] == value
    if forget:  # another machine, or a lost data folder: by what is in the file alone
        for file in files:
            file.write_bytes(file.read_bytes() + b" ")
    uninstall(own)
    if forget:
        for file in files:
            assert json.loads(file.read_bytes()) == json.loads(data)
    else:
        assert tree(home) == before


def test_the_commands_print_and_write_and_undo(wish: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(wish.home))
    monkeypatch.chdir(wish.folder)

    def run(command: Any, *arguments: str) -> str:
        done = CliRunner().invoke(command, arguments, obj=Invocation(), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    shown = run(install_command, "claude", "--print", "--agent", "alice", "--db", "x.db")
    assert "# add to " in shown
    assert '"--agent"' in shown
    assert tree(wish.home) == {}
    assert len(json.loads(run(install_command, "codex", "--print", "--json"))) == 2
    assert run(install_command, "claude").count(f"Wrote {wish.home}") == 2
    assert "already" in run(install_command, "claude")
    assert run(uninstall_command, "claude").count("Restored ") == 2
    assert "nothing" in run(uninstall_command, "claude")
    assert tree(wish.home) == {}


@pytest.mark.parametrize(
    ("client", "variable", "files"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", {".claude.json", "settings.json"}),
        ("codex", "CODEX_HOME", {"config.toml", "hooks.json"}),
    ],
)
def test_a_client_that_keeps_its_folder_elsewhere_is_configured_there(
    wish: Installation, client: str, variable: str, files: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(wish.home))
    monkeypatch.chdir(wish.folder)
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("stays", encoding="utf-8")
    before = tree(tmp_path / "elsewhere")

    def run(command: Any, *arguments: str) -> None:
        assert (
            CliRunner().invoke(command, [client, *arguments], obj=Invocation(), catch_exceptions=False).exit_code == 0
        )

    run(install_command)
    assert set(tree(tmp_path / "elsewhere")) == files | {"mine"}
    assert tree(wish.home) == {}
    run(install_command, "--scope", "project")
    assert set(tree(tmp_path / "elsewhere")) == files | {"mine"}
    assert f".{client}" in tree(wish.folder)
    run(uninstall_command)
    assert tree(tmp_path / "elsewhere") == before
    run(uninstall_command, "--scope", "project")
    assert tree(wish.folder) == {}
    monkeypatch.setenv(variable, "")
    run(install_command)
    assert tree(wish.home)
    assert tree(tmp_path / "elsewhere") == before


def test_nothing_is_changed_if_one_of_the_files_cannot_be_written(
    wish: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wish.home / ".claude").mkdir()
    (wish.home / ".claude" / "settings.json").write_text("{}", encoding="utf-8")
    before, usual = tree(wish.home), os.access

    def access(path: Path, mode: int) -> bool:
        return "settings" not in Path(path).name and usual(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "access", access)
        with pytest.raises(ConfigError, match=r"settings\.json cannot be written; nothing was changed"):
            install(wish)
    assert tree(wish.home) == before
    install(wish)
    monkeypatch.setattr(os, "access", access)
    assert install(wish) == []  # there is nothing to write


def test_a_link_that_leads_nowhere_is_said_to_do_so(wish: Installation) -> None:
    (wish.home / ".claude.json").symlink_to(wish.home / ".claude.json")
    for deed in (install, uninstall):
        with pytest.raises(ConfigError, match="see what to add with --print"):
            deed(wish)
