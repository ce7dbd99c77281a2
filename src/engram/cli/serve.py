"""`engram serve`: the memory over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from engram.cli.invocation import Invocation
from engram.cli.options import Command
from engram.cli.render import print_json
from engram.errors import MissingExtra

if TYPE_CHECKING:
    from engram.api.limits import Limits
    from engram.engine import Engram
    from engram.server.grpc.run import Running
    from engram.server.metrics import Metrics
    from engram.server.rest.logs import LogFormat
    from engram.server.rest.run import Binding
    from engram.transfer.signing import PublicKey


@click.command("serve", cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8750, show_default=True, help="The port; 0 for any that is free."
)
@click.option("--certfile", type=click.Path(exists=True, dir_okay=False), help="The certificate, for TLS.")
@click.option("--keyfile", type=click.Path(exists=True, dir_okay=False), help="The key of the certificate.")
@click.option(
    "--insecure-behind-proxy", "behind_proxy", is_flag=True, help="Listen without TLS: a proxy in front speaks it."
)
@click.option(
    "--allowed-host", "hosts", multiple=True, metavar="NAME", help="What callers call this server; may be repeated."
)
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="ORIGIN", help="Web pages that may ask; may be repeated."
)
@click.option(
    "--rate", type=click.FloatRange(min=0), default=100, show_default=True, help="Requests a second of one key; 0: any."
)
@click.option("--grpc", type=click.IntRange(0, 65535), metavar="PORT", help="Serve gRPC, too, on this port; 0 for any.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to write down requests: for people, or for programs.",
)
@click.option("--openapi", is_flag=True, help="Print the OpenAPI document and stop.")
@click.option("--link", is_flag=True, help="Print a link that signs in to the dashboard, once.")
@click.pass_obj
def command(
    cli: Invocation,
    /,
    rate: float,
    openapi: bool,
    link: bool,
    grpc: int | None,
    log_format: LogFormat,
    **where: Any,
) -> None:
    """Serve the memory over HTTP, with a key for every caller.

    It listens on this machine only, unless it is told otherwise and speaks TLS. If there is no key yet, it makes one
    and prints it to standard error, with a link that opens the dashboard. SIGTERM and Ctrl-C stop it: running requests
    end first.
    """
    try:
        from engram.api.limits import Limits
        from engram.server.metrics import Metrics
        from engram.server.rest import app, run
    except ImportError as error:
        raise MissingExtra(
            f"the server is not installed ({error.name}); pip install 'engram-learning[server]'"
        ) from error
    if openapi:
        print_json(app.document())
        return
    binding = run.Binding(**where)
    binding.address()
    from engram.wiring import trusted_keys

    limits, metrics, trusted = Limits(rate=rate, burst=max(1, round(2 * rate))), Metrics(), trusted_keys()
    with cli.brain(create=True) as brain, ExitStack() as stack:
        if grpc is not None:
            stack.enter_context(_grpc(brain, binding, grpc, limits, metrics, trusted))
        run.serve(brain, binding, limits, _say, log_format=log_format, metrics=metrics, trusted=trusted, link=link)


def _grpc(
    brain: Engram,
    binding: Binding,
    port: int,
    limits: Limits,
    metrics: Metrics,
    trusted: Mapping[str, PublicKey],
) -> Running:
    try:
        from engram.server.grpc import run
    except ImportError as error:
        raise MissingExtra(f"gRPC is not installed ({error.name}); pip install 'engram-learning[grpc]'") from error
    shared = {name: getattr(binding, name) for name in ("host", "certfile", "keyfile", "behind_proxy")}
    running = run.start(brain, run.Binding(port=port, **shared), limits, observe=metrics.done, trusted=trusted)
    _say(f"Engram serves gRPC on {running.address}")
    return running


def _say(message: str) -> None:
    click.echo(message, err=True)
