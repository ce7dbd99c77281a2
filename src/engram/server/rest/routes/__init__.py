"""The resources under `/v1`; a new module is served as soon as it stands in `ROUTERS`."""

from __future__ import annotations

from fastapi import APIRouter

from engram.server.rest.routes import (
    agents,
    audit,
    decisions,
    events,
    failures,
    grants,
    knowledge,
    life,
    memories,
    quarantine,
    reports,
    retention,
)

ROUTERS: tuple[APIRouter, ...] = (
    memories.router,
    decisions.router,
    failures.router,
    knowledge.router,
    grants.router,
    quarantine.router,
    agents.router,
    life.router,
    reports.router,
    audit.router,
    retention.router,
    events.router,
)
