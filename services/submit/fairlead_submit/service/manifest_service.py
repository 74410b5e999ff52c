"""Manifests of Kubernetes: conversion to jobs, and their submission."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_submit.domain.callers import RequestContext
from fairlead_submit.domain.manifests.conversion import (
    Conversion,
    ConvertedManifests,
    convert_manifests,
)
from fairlead_submit.domain.manifests.manifest_fields import ReportedField
from fairlead_submit.domain.request_types import Manifests
from fairlead_submit.service.fair_validation import FairValidation
from fairlead_submit.service.group_service import GroupService, SubmittedGroup
from fairlead_submit.service.submission_service import SubmissionService, SubmittedJob


class ManifestResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The response to manifests: the jobs as of `POST /api/v1/jobs`, or the groups as of
    `POST /api/v1/groups`, and the report of fields.
    """

    queue: str
    job_set: str
    position: str | None
    jobs: list[SubmittedJob]
    groups: list[SubmittedGroup]
    fields: list[ReportedField]


class ManifestService:
    """Converts manifests, and submits the jobs or groups that they become, all or none."""

    def __init__(
        self, submissions: SubmissionService, groups: GroupService, validation: FairValidation
    ) -> None:
        self._submissions = submissions
        self._groups = groups
        self._validation = validation
        self._decoder: Final = Decoder(Manifests)

    async def convert(self, body: bytes) -> Conversion:
        """What a body's manifests become, which is not created. Raises a `Problem` for what could
        not be submitted to any queue; the queue and the job set can be named later.
        """
        converted = await self._convert(body)
        made = converted.conversion
        with _located_errors(converted):
            find_errors = self._groups.find_errors if made.groups else self._submissions.find_errors
            found = await find_errors(_encode_submission(made))
            later = {error.pointer for error in _find_missing(made)}
            if found := [error for error in found if error.pointer not in later]:
                raise validation_problem(found)
        return made

    async def submit(
        self, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> ManifestResponse:
        """Submit what a body's manifests become. Raises a `Problem` or `WorldError`."""
        converted = await self._convert(body)
        made = converted.conversion
        if found := _find_missing(made):
            raise validation_problem(found)
        content = _encode_submission(made)
        with _located_errors(converted):
            if made.groups:
                of_groups = await self._groups.submit(content, context, dry_run=dry_run)
                position, jobs, groups = of_groups.position, [], of_groups.groups
            else:
                of_jobs = await self._submissions.submit(content, context, dry_run=dry_run)
                position, jobs, groups = of_jobs.position, of_jobs.jobs, []
        return ManifestResponse(made.queue, made.job_set, position, jobs, groups, made.fields)

    async def _convert(self, body: bytes) -> ConvertedManifests:
        request, found = await self._validation.decode(self._decoder, body)
        if request.manifests is None:
            found.append(FieldError("/manifests", "is missing"))
        if found:
            raise validation_problem(found)
        jobs_max = self._submissions.limits.jobs_max
        manifests = request.manifests or []
        converted = await self._validation.run(
            lambda: convert_manifests(manifests, request.queue, request.job_set, jobs_max)
        )
        if converted.errors:
            raise validation_problem(converted.errors)
        return converted


@contextmanager
def _located_errors(converted: ConvertedManifests) -> Iterator[None]:
    """Locate the errors of a submission in the manifests that it comes from."""
    try:
        yield
    except Problem as problem:
        problem.field_errors = list(dict.fromkeys(converted.locate(problem.field_errors)))
        raise


def _encode_submission(made: Conversion) -> bytes:
    """The body of `POST /api/v1/groups` or `/jobs`."""
    what = {"groups": made.groups} if made.groups else {"jobs": made.jobs}
    return msgspec.json.encode({"queue": made.queue, "jobSet": made.job_set, **what})


def _find_missing(made: Conversion) -> list[FieldError]:
    found = []
    if not made.queue:
        detail = "is missing; set it, or the label fairlead.dev/queue of a manifest"
        found.append(FieldError("/queue", detail))
    if not made.job_set:
        detail = "is missing; set it, or name a manifest by metadata.name"
        found.append(FieldError("/jobSet", detail))
    return found
