"""`engram knowledge`: export and import knowledge in files, and copy it between agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, agent_option
from engram.cli.render import print_fields, print_json, progress
from engram.errors import InvalidInput

if TYPE_CHECKING:
    from engram.model.transfer import ImportReport
    from engram.transfer.signing import PrivateKey

FORMATS = ("engram", "mem0", "mcp-memory", "markdown", "openai", "anthropic", "langgraph")
KEY = "signing.key"

OWN_FILE = (
    "  If the file was exported from this database, its memories are here already: `engram memory share` shares them "
    "with another agent, and `engram knowledge merge` then copies them."
)


@click.group("knowledge", cls=CommandGroup)
def command() -> None:
    """Export knowledge to a file, import it from a file, or copy it from another agent.

    Imported knowledge is stored separately from the agent's own, starts with low trust, and counts only once even if it
    is imported in several ways.
    """


@command.command("export")
@agent_option
@click.option("--domain", "domains", multiple=True, metavar="NAME", help="Only of this domain; may be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeated: with any.")
@click.option("--file", "--out", "file", type=click.Path(path_type=Path), metavar="FILE", help="The file to write.")
@click.option("--jsonl", is_flag=True, help="Write JSON lines, for large exports; default if FILE ends in .jsonl.")
@click.option("--sign", is_flag=True, help="Sign it with the key of this user, which is created at first use.")
@click.pass_obj
def export(
    cli: Invocation,
    agent: str | None,
    domains: tuple[str, ...],
    tags: tuple[str, ...],
    file: Path | None,
    jsonl: bool,
    sign: bool,
) -> None:
    """Export what an agent knows to a file.

    Knowledge shared by other agents is included only if their grants include the right `reshare`.
    """
    with cli.brain() as brain:
        owner = cli.writer(brain, agent)
        ending = "jsonl" if jsonl else "json"
        target = file or Path(f"{_file_name(domains[0] if len(domains) == 1 else owner.name)}-knowledge.{ending}")
        lines = jsonl or ".jsonl" in target.suffixes
        with progress(cli, "exporting", "memories") as on_progress:
            report = owner.knowledge.export(
                target,
                domains=domains,
                tags=tags,
                form="jsonl" if lines else "json",
                sign=_signing_key() if sign else None,
                progress=on_progress,
            )
    if cli.json:
        print_json(report.model_dump(mode="json"))
        return
    click.echo(
        f"Wrote {plural(report.memories, 'memory')}, {plural(report.events, 'event')} and "
        f"{plural(report.patterns, 'pattern')} to {one_line(report.file)}"
    )
    if not report.memories and (domains or tags):
        click.echo("No memory matches: a domain is a tag, the domain of knowledge, or the task type of a decision.")
    for reason, number in report.left_out.items():
        click.echo(f"{plural(number, 'memory')} left out: {reason}.")
    click.echo(f"Signed by {report.signed_by}." if report.signed_by else "It is not signed; --sign would sign it.")


@command.command("import")
@click.option("--file", required=True, type=click.Path(path_type=Path), metavar="FILE", help="A file or a folder.")
@agent_option
@click.option("--format", "format_", type=click.Choice(FORMATS), help="The format of the file. Default: detected.")
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@click.option("--require-signature", is_flag=True, help="Refuse a file without a valid signature by a trusted key.")
@click.option("--large", is_flag=True, help="Accept more than 1,000 records or 300 kB.")
@click.pass_obj
def import_(
    cli: Invocation,
    file: Path,
    agent: str | None,
    format_: str | None,
    dry_run: bool,
    require_signature: bool,
    large: bool,
) -> None:
    """Import knowledge from a file.

    It reads Engram's own files, exports of mem0, files of the MCP memory server, folders of Markdown, chats exported
    from OpenAI and Anthropic, and LangGraph stores. Importing the same file again changes nothing.
    """
    from engram.wiring import trusted_keys

    if not file.exists():
        raise InvalidInput(f"there is no file {one_line(str(file))}; give the path of one")
    options: dict[str, Any] = {"format": format_, "trusted": trusted_keys(), "large": large}
    with cli.brain(create=True) as brain, progress(cli, "importing", "records") as on_progress:
        knowledge = cli.writer(brain, agent).knowledge
        if require_signature:
            checked = knowledge.import_file(file, dry_run=True, **options).verification
            if checked.status != "valid":
                raise InvalidInput(
                    f"it has no valid signature by a trusted key ({checked.status}); nothing was imported"
                )
        report = knowledge.import_file(file, dry_run=dry_run, progress=on_progress, **options)
        receiver = cli.writer(brain, agent).name
    _print(cli, report, receiver)


@command.command("merge")
@click.option("--from-agent", required=True, metavar="AGENT", help="The agent to copy from.")
@agent_option
@click.option("--domain", "domains", multiple=True, metavar="NAME", help="Only of this domain; may be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeated: with any.")
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@click.pass_obj
def merge(cli: Invocation, /, from_agent: str, agent: str | None, **options: Any) -> None:
    """Copy what another agent shares with the right `learn`; the copies are kept as long as the grant is valid."""
    with cli.brain() as brain:
        receiver = cli.writer(brain, agent)
        report = receiver.knowledge.merge(from_agent, **options)
    _print(cli, report, receiver.name)


@command.command("keys")
@click.option("--show", is_flag=True, help="Print the public key of this user, so that others can trust it.")
@click.option("--trust", metavar="LINE", help="Trust a public key: a line that --show printed.")
@click.pass_obj
def keys(cli: Invocation, show: bool, trust: str | None) -> None:
    """Show or trust the keys for signing files."""
    from engram.transfer import installation, signing
    from engram.wiring import TRUSTED, keyring_folder, trusted_keys

    if trust is not None:
        name, key = signing.read_public_line(trust)
        signing.save_trusted(keyring_folder() / TRUSTED, {**trusted_keys(), name: key})
    own = ""
    if show:
        with cli.brain(create=True) as brain:
            own = signing.public_line(_signing_key().public, installation(brain))
    if cli.json:
        print_json({"own": own or None, "trusted": {name: key.id for name, key in trusted_keys().items()}})
    elif own:
        click.echo(own)
    else:
        print_fields({key.id: one_line(name) for name, key in trusted_keys().items()} or {"trusted": "none"})


def _print(cli: Invocation, report: ImportReport, receiver: str) -> None:
    if cli.json:
        print_json({"agent": receiver, **report.model_dump(mode="json")})
        return
    verb = "would be stored" if report.dry_run else "stored"
    origin = f"{one_line(report.source)} ({report.format}, {report.verification.status})"
    click.echo(f"From {origin}: {report.stored} {verb} for {one_line(receiver)}")
    descriptions = {
        "merged": "merged with memories of the same text",
        "known": "imported before",
        "own": "your own, not counted again",
        "quarantined": "quarantined for review: engram quarantine list",
        "rejected": "rejected",
        "outcomes": "new outcomes",
    }
    for name, description in descriptions.items():
        if number := getattr(report, name):
            click.echo(f"  {number} {description}")
    for reason in report.reasons:
        click.echo(f"  {one_line(reason)}", err=True)
    if report.quarantined and any(each.code == "forged-origin" for each in report.findings):
        click.echo(OWN_FILE, err=True)


def _signing_key() -> PrivateKey:
    from engram.transfer import signing
    from engram.wiring import keyring_folder

    path = keyring_folder() / KEY
    return signing.load_key(path) if path.exists() else signing.create_key(path)


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name).strip(".") or "engram"
