"""Refuses changes while the disk is full, before they cost anything; reads and pages go on."""

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_common.domain.errors import LogFull
from fairlead_common.service.disk import Disk, Space
from fairlead_common.web import problem_documents
from fairlead_common.web.auth.request_origin import SAFE

PREFIX = "/api/"
"""What changes something is below this. Signing in is not: who looks at pages needs a session."""


class DiskFullMiddleware:
    """The middleware inside the one that finds the caller."""

    def __init__(self, app: ASGIApp, disk: Disk) -> None:
        self._app = app
        self._disk = disk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a change with 503 while the disk is full, and pass on everything else."""
        if scope["type"] == "http" and scope["method"] not in SAFE:
            try:
                if scope["path"].startswith(PREFIX):
                    self._disk.check(Space.FULL)
            except LogFull as error:
                answer = problem_documents.respond_to_error(Request(scope, receive, send), error)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
