"""`engram serve`: serve the memory over REST, with the dashboard, and over gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from engram.cli.invocation import Invocation
from engram.cli.options import Command, listen_options
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
@listen_options(8750)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A web origin whose pages may send requests (CORS); may be repeated.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=100,
    show_default=True,
    help="Requests per second and key; 0 for no limit.",
)
@click.option(
    "--grpc", type=click.IntRange(0, 65535), metavar="PORT", help="Also serve gRPC on this port; 0 for any free one."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the request log.",
)
@click.option("--openapi", is_flag=True, help="Print the OpenAPI document and exit.")
@click.option("--link", is_flag=True, help="Print a link that signs in to the dashboard; it works once.")
@click.pass_obj
def command(
    cli: Invocation,
    /,
    rate: float,
    openapi: bool,
    link: bool,
    grpc: int | None,
    log_format: LogFormat,
    **listen: Any,
) -> None:
    """Serve the memory over HTTP; every request needs an API key.

    By default it listens on this machine only; other addresses need TLS. If there is no key yet, it creates one and
    prints it to standard error, with a link that opens the dashboard. SIGTERM and Ctrl-C stop it after the running
    requests have ended.
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
    binding = run.Binding(**listen)
    binding.address()
    from engram.wiring import trusted_keys

    limits, metrics, trusted = Limits(rate=rate, burst=max(1, round(2 * rate))), Metrics(), trusted_keys()
    with cli.brain(create=True) as brain, ExitStack() as stack:
        if grpc is not None:
            stack.enter_context(_grpc(brain, binding, grpc, limits, metrics, trusted))
        run.serve(
            brain, binding, limits, _print_error, log_format=log_format, metrics=metrics, trusted=trusted, link=link
        )


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
    _print_error(f"Engram serves gRPC on {running.address}")
    return running


def _print_error(message: str) -> None:
    click.echo(message, err=True)
