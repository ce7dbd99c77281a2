"""What errors say, in the words of this door: where others name a command or a call, it names the request."""

from __future__ import annotations

import re

REQUESTS = {
    "agent list": "GET /v1/agents",
    "audit verify": "GET /v1/audit/verification",
    "grant list": "GET /v1/grants",
    "learning failures": "GET /v1/failures",
    "memory list": "GET /v1/memories",
    "memory patterns": "GET /v1/patterns/success",
    "prevention list": "GET /v1/prevention/checks",
    "quarantine list": "GET /v1/quarantine",
    "retention holds": "GET /v1/retention/holds",
    "retention list": "GET /v1/retention/policies",
    "retention release": "POST /v1/retention/holds/{id}/release",
    "workflow list": "GET /v1/workflows/runs",
    "workspace list": "GET /v1/workspaces",
}
"""The request that does what a command does."""

OPTIONS = {"`--large`": "`large=true`"}
"""The parameter that says what an option says."""

_COMMAND = re.compile(r"`engram ([a-z]+ [a-z]+)[^`]{0,200}`")
_ELSEWHERE = ("`engram ", "`agent erase`", "engram.open", "ENGRAM_", "brain.")
_NOTHING_LEFT = "the server cannot do this; whoever runs it has to look into it"


def worded(message: str) -> str:
    """The same, for somebody who sends requests: advice that only helps whoever runs the server is left out."""
    for option, parameter in OPTIONS.items():
        message = message.replace(option, parameter)
    if not any(each in message for each in _ELSEWHERE):
        return message
    said = _COMMAND.sub(lambda found: f"`{REQUESTS[found[1]]}`" if found[1] in REQUESTS else found[0], message)
    kept = [part for part in said.split("; ") if not any(each in part for each in _ELSEWHERE)]
    return "; ".join(kept) or _NOTHING_LEFT
