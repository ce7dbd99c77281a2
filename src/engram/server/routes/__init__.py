"""The resources under `/v1`; a new module is served as soon as it stands in `ROUTERS`."""

from __future__ import annotations

from fastapi import APIRouter

from engram.server.routes import agents, decisions, events, failures, life, memories, reports

ROUTERS: tuple[APIRouter, ...] = (
    memories.router,
    decisions.router,
    failures.router,
    agents.router,
    life.router,
    reports.router,
    events.router,
)
