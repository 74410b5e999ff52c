"""From a submission to events with ids, or to all its errors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import ArrayId, JobId
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import validation_problem
from fairlead_submit.domain import name_rules, secret_variables
from fairlead_submit.domain.arrays import array_terms
from fairlead_submit.domain.arrays.array_terms import ArrayTerms
from fairlead_submit.domain.jobs.job_templates import JOB_BYTES_MAX, JobTemplate, JobTemplates
from fairlead_submit.domain.policy import Limits
from fairlead_submit.domain.request_types import After, AfterArray, Job, Submission
from fairlead_submit.domain.secret_variables import QueueSecrets

_encode: Final = msgspec.json.Encoder().encode

STEP_JOBS: Final = 20
"""The number of jobs of a step: at most a millisecond of work, unless pod specs are large."""


class PreparedSubmission(msgspec.Struct, frozen=True):
    """Jobs that are ready for the log, in the given order.

    `outside`: ids in `after` of jobs outside this request, with the pointer of the first.
    `arrays`: the terms of the jobs that are arrays; such a job is the template of its tasks.
    `followed`: the arrays whose tasks these follow; `arrays_outside`: arrays outside this request
    that a job or an array waits for, with the pointer of the first.
    """

    queue: str
    job_set: str
    partition: int
    jobs: list[events.JobSubmitted]
    outside: dict[JobId, str]
    arrays: dict[JobId, ArrayTerms] = {}
    followed: dict[JobId, ArrayId] = {}
    arrays_outside: dict[ArrayId, str] = {}

    def count_tasks(self, job_id: JobId) -> int:
        """How many jobs this one counts as: an array as its tasks."""
        terms = self.arrays.get(job_id)
        return 1 if terms is None else len(terms.indexes)

    def make_events(
        self, jobs: Sequence[events.JobSubmitted]
    ) -> Sequence[events.JobSubmitted | events.ArraySubmitted]:
        """The events that submit these jobs."""
        if not self.arrays:
            return jobs
        return [
            array_terms.make_event(job, self.arrays[job.job_id], self.followed.get(job.job_id))
            if job.job_id in self.arrays
            else job
            for job in jobs
        ]


class IdSource(msgspec.Struct, frozen=True):
    """What new job ids are made from."""

    now_ms: int
    random_79: int


def prepare_submission(
    request: Submission,
    known: list[FieldError],
    templates: JobTemplates,
    limits: Limits,
    source: IdSource,
    secrets: QueueSecrets | None = secret_variables.NO_SECRETS,
) -> tuple[PreparedSubmission, list[FieldError]]:
    """All steps of `SubmissionPreparation` at once."""
    preparation = SubmissionPreparation(request, known, templates, limits, secrets)
    for _ in preparation.make_templates():
        pass
    return preparation.finish(source)


class SubmissionPreparation:
    """From a request to events and all its errors, `known` ones first.

    `make_templates` takes most of the time, and its caller can do something else between its steps.
    Whether the queue exists is not checked here. Without `secrets`, jobs are not searched for them.
    """

    def __init__(
        self,
        request: Submission,
        known: list[FieldError],
        templates: JobTemplates,
        limits: Limits,
        secrets: QueueSecrets | None,
    ) -> None:
        """Raises a 422 `Problem` for defaults that are too large."""
        if request.defaults is not None and (found := _check_size(request.defaults, limits)):
            raise validation_problem([*known, *found])
        self._known = known
        self._templates = templates
        self._limits = limits
        self._found = _check_names(request)
        jobs = request.jobs or []
        self._found += _check_count(request.jobs, limits.jobs_max)
        self._jobs = jobs if len(jobs) <= limits.jobs_max else []
        if request.defaults is not None and request.defaults.client_id is not None:
            self._found.append(
                FieldError(
                    "/defaults/clientId", "is not allowed: every job would have the same clientId"
                )
            )
        if request.defaults is not None and request.defaults.array is not None:
            self._found.append(FieldError("/defaults/array", "is not allowed: set it in the job"))
            request.defaults.array = None
        client_ids = _take_client_ids(self._jobs, request.defaults)
        queue = request.queue or ""
        self._batch = _Batch(
            queue,
            request.job_set or "",
            client_ids,
            _take_arrays(self._jobs, self._found),
            limits.events_bytes_max,
        )
        self._shared = templates.make_shared_terms(queue, request.defaults, secrets)

    def make_templates(self) -> Iterator[None]:
        """Make the template of each job, `STEP_JOBS` per step. Raises a 422 `Problem` for too many
        errors, and a 413 `Problem` for jobs that exceed the size limit.
        """
        get, shared = self._templates.get, self._shared
        for start in range(0, len(self._jobs), STEP_JOBS):
            some = self._jobs[start : start + STEP_JOBS]
            self._batch.add_templates([get(job, shared) for job in some])
            yield

    def finish(self, source: IdSource) -> tuple[PreparedSubmission, list[FieldError]]:
        """The events, which have no meaning if there are errors."""
        batch = self._batch
        batch.check_arrays()
        batch.assign_ids(source)
        batch.resolve_after(self._limits.after_max)
        batch.resolve_arrays()
        batch.check_gangs()
        found = validation.without_implied([*self._found, *batch.found], self._known)
        return batch.make_result(), [*self._known, *found]


def _check_names(request: Submission) -> list[FieldError]:
    found: list[FieldError] = []
    if request.queue is None:
        found.append(FieldError("/queue", "is missing"))
    elif detail := name_rules.check_name(request.queue):
        found.append(FieldError("/queue", detail))
    if request.job_set is None:
        found.append(FieldError("/jobSet", "is missing"))
    elif detail := name_rules.check_job_set_name(request.job_set):
        found.append(FieldError("/jobSet", detail))
    return found


def _check_size(defaults: Job, limits: Limits) -> list[FieldError]:
    """Check the size of what is encoded for each job, before that is done."""
    size = len(_encode(defaults))
    if size > JOB_BYTES_MAX:
        detail = f"has {size} bytes; at most {JOB_BYTES_MAX} are allowed"
        return [FieldError("/defaults", detail)]
    size_max = limits.pod_spec_bytes_max
    return [
        FieldError(f"/defaults/{name}", f"has {size} bytes; at most {size_max} are allowed")
        for name, objects in (("services", defaults.services), ("ingresses", defaults.ingresses))
        if (size := len(_encode(objects))) > size_max
    ]


def _check_count(jobs: Sequence[Job] | None, jobs_max: int) -> list[FieldError]:
    if jobs is None:
        return [FieldError("/jobs", "is missing")]
    if not jobs:
        return [FieldError("/jobs", "has no job; at least one is required")]
    if len(jobs) > jobs_max:
        return [FieldError("/jobs", f"has {len(jobs)} jobs; at most {jobs_max} are allowed")]
    return []


def _take_client_ids(jobs: Sequence[Job], defaults: Job | None) -> list[str | None]:
    """Remove and return the client ids, so that otherwise equal jobs share a template."""
    client_ids = [job.client_id for job in jobs]
    for job in jobs:
        job.client_id = None
    if defaults is not None:
        defaults.client_id = None
    return client_ids


def _take_arrays(jobs: Sequence[Job], found: list[FieldError]) -> dict[int, ArrayTerms]:
    """Remove and return the arrays by the place of their job, for the reason of client ids."""
    taken: dict[int, ArrayTerms] = {}
    for index, job in enumerate(jobs):
        if job.array is not None:
            errors: list[FieldError] = []
            taken[index] = array_terms.read_terms(job.array, errors)
            job.array = None
            pointer = f"/jobs/{index}/array"
            found += [FieldError(pointer + error.pointer, error.detail) for error in errors]
    return taken


class _Batch:
    """The jobs of one request as columns, filled step by step."""

    def __init__(
        self,
        queue: str,
        job_set: str,
        client_ids: list[str | None],
        arrays: dict[int, ArrayTerms],
        bytes_max: int,
    ) -> None:
        self.found: list[FieldError] = []
        self._bytes_max = bytes_max
        self._arrays = arrays
        self._queue = queue
        self._job_set = job_set
        self._partition = ids.job_set_partition(queue, job_set)
        self._client_ids = client_ids
        self._templates: list[JobTemplate] = []
        self._size = 0
        self._ids: list[JobId] = []
        self._after: dict[int, tuple[JobId, ...]] = {}
        self._outside: dict[JobId, str] = {}
        self._gangs: dict[int, events.Gang] = {}
        self._followed: dict[JobId, ArrayId] = {}
        self._arrays_outside: dict[ArrayId, str] = {}

    def add_templates(self, templates: Sequence[JobTemplate]) -> None:
        """Add the templates of the next jobs and their errors. Raises a 422 `Problem` for too many
        errors, and a 413 `Problem` for jobs that are too large together.
        """
        first = len(self._templates)
        self._templates += templates
        for index, template in enumerate(templates, first):
            self._size += template.size
            if template.errors or template.shared:
                self.found += template.shared
                self.found += [
                    FieldError(f"/jobs/{index}{error.pointer}", error.detail)
                    for error in template.errors
                ]
                if len(self.found) >= validation.ERRORS_MAX:
                    raise validation_problem(self.found)
        if self._size > self._bytes_max:
            raise Problem(
                "too-large",
                f"With their defaults, the jobs take more than {self._bytes_max} bytes, the maximum"
                " of one request. Send them in several requests.",
            )

    def check_arrays(self) -> None:
        """Check that no array has a field that is for single jobs."""
        for index in self._arrays:
            template = self._templates[index]
            self.found += [
                FieldError(f"/jobs/{index}{error.pointer}", error.detail)
                for error in array_terms.check_template(template.event, len(template.after))
            ]

    def assign_ids(self, source: IdSource) -> None:
        """Assign an id to every job and array: derived from its client id, or a new one.

        New ids of jobs are consecutive. New ids of arrays are at least two arrays away from them
        and from each other.
        """
        self._ids = self._make_ids(source)
        for index in self._arrays:
            client_id = self._client_ids[index]
            if client_id is not None:
                made = ids.client_array_id(self._partition, self._queue, self._job_set, client_id)
            else:
                number = source.random_79 + (index + 2) * ids.TASK_NUMBERS
                made = ids.array_id(ids.new_job_id(self._partition, source.now_ms, number))
            self._ids[index] = JobId(made)

    def _make_ids(self, source: IdSource) -> list[JobId]:
        given = [client_id for client_id in self._client_ids if client_id is not None]
        if not "".join(given).isprintable():
            unprintable = {text for text in given if not text.isprintable()}
            self._report_client_ids(unprintable, "contains characters that are not printable")
        if len(set(given)) < len(given):
            repeated = {text for text, count in Counter(given).items() if count > 1}
            self._report_client_ids(repeated, "is the clientId of several jobs of this request")
        derived = ids.client_job_ids(self._partition, self._queue, self._job_set, given)
        if len(given) == len(self._client_ids):
            return derived
        named = iter(derived)
        return [
            ids.new_job_id(self._partition, source.now_ms, source.random_79 + index)
            if client_id is None
            else next(named)
            for index, client_id in enumerate(self._client_ids)
        ]

    def _report_client_ids(self, client_ids: set[str], detail: str) -> None:
        self.found += [
            FieldError(f"/jobs/{index}/clientId", f"{validation.quote(text)} {detail}")
            for index, text in enumerate(self._client_ids)
            if text in client_ids
        ]

    def resolve_after(self, after_max: int) -> None:
        """Find the ids of the jobs and arrays in `after`, which precede the job in the request."""
        waiting = [n for n, template in enumerate(self._templates) if template.after]
        if not waiting:
            return
        count = sum(len(self._templates[index].after) for index in waiting)
        if count > after_max:
            detail = f"have {count} entries in `after`; at most {after_max} are allowed"
            self.found.append(FieldError("/jobs", detail))
            return
        places = self._find_places()
        for index in waiting:
            self._after[index] = tuple(
                self._resolve(given, f"/jobs/{index}/after/{number}", index, places)
                for number, given in enumerate(self._templates[index].after)
            )

    def _resolve(self, given: After, pointer: str, index: int, places: dict[str, int]) -> JobId:
        if isinstance(given, AfterArray):
            return JobId(self._resolve_array(given.array or "", f"{pointer}/array", index, places))
        at = places.get(given)
        if at is None:
            job_id = self._make_outside_id(given)
            self._outside.setdefault(job_id, pointer)
            return job_id
        if at in self._arrays:
            named = _encode(AfterArray(array=given)).decode()
            detail = f"is job {at}, which is an array; to wait for all its tasks, write {named}"
            self.found.append(FieldError(pointer, detail))
        if at >= index:
            what = (
                "is this job itself"
                if at == index
                else f"is job {at}, which is later in the request"
            )
            self.found.append(
                FieldError(pointer, f"{what}; a job must follow the jobs that it waits for")
            )
        return self._ids[at]

    def _make_outside_id(self, text: str) -> JobId:
        """The text itself if it is a job id of this job set, else the id for this client id."""
        if self._is_own_id(text):
            return JobId(text)
        return ids.client_job_id(self._partition, self._queue, self._job_set, text)

    def _make_outside_array(self, text: str) -> ArrayId:
        """As `_make_outside_id`, of an array."""
        if self._is_own_id(text):
            return ids.array_id(text)
        return ids.client_array_id(self._partition, self._queue, self._job_set, text)

    def _is_own_id(self, text: str) -> bool:
        """Whether the text is an id of the partition of this job set."""
        return ids.is_job_id(text) and ids.partition_of_job(text) == self._partition

    def resolve_arrays(self) -> None:
        """Find the ids of the arrays that others follow."""
        places = self._find_places()
        for index, terms in self._arrays.items():
            if terms.after is not None:
                pointer = f"/jobs/{index}/array/afterCorresponding"
                made = self._resolve_array(terms.after, pointer, index, places)
                self._followed[self._ids[index]] = made

    def _resolve_array(
        self, text: str, pointer: str, index: int, places: dict[str, int]
    ) -> ArrayId:
        """The array that a job or an array waits for, which precedes it in the request."""
        place = places.get(text)
        made = self._make_outside_array(text)
        if place is None:
            self._arrays_outside.setdefault(made, pointer)
        elif place >= index:
            detail = "is this one or a later one of the request; what is waited for must come first"
            self.found.append(FieldError(pointer, detail))
        elif place not in self._arrays:
            self.found.append(FieldError(pointer, f"is job {place}, which is not an array"))
        return made

    def _find_places(self) -> dict[str, int]:
        """The place of each client id in the request."""
        return {text: index for index, text in enumerate(self._client_ids) if text is not None}

    def check_gangs(self) -> None:
        """Check that the members of each gang agree on its fields and their pool, do not exceed its
        size, and have distinct member numbers. Assign numbers to a complete gang without any.
        """
        first: dict[str, events.JobSubmitted] = {}
        members: dict[str, list[int]] = {}
        for index, template in enumerate(self._templates):
            gang = template.event.gang
            if gang is None or not gang.name:
                continue
            leader = first.setdefault(gang.name, template.event)
            known = members.setdefault(gang.name, [])
            known.append(index)
            name = validation.quote(gang.name)
            if not _agree(leader.gang, gang):
                detail = f"differs from the `gang` of another member of {name}"
                self.found.append(FieldError(f"/jobs/{index}/gang", detail))
            elif leader.pool != template.event.pool:
                detail = f"differs from {leader.pool!r}, the pool of other members of gang {name}"
                self.found.append(FieldError(f"/jobs/{index}/pool", detail))
            elif len(known) == gang.size + 1:
                detail = f"is {gang.size}, but the request has more members of gang {name}"
                self.found.append(FieldError(f"/jobs/{index}/gang/size", detail))
        for indexes in members.values():
            self._number(indexes)

    def _number(self, members: list[int]) -> None:
        """Check the member numbers of a gang. Without any, assign them if the gang is complete."""
        gangs = {index: gang for index in members if (gang := self._templates[index].event.gang)}
        numbers = Counter(gang.member for gang in gangs.values())
        if numbers.keys() == {None}:
            if len(members) == gangs[members[0]].size:
                for number, (index, gang) in enumerate(gangs.items()):
                    self._gangs[index] = msgspec.structs.replace(gang, member=number)
            return
        for index, gang in gangs.items():
            pointer, name = f"/jobs/{index}/gang/member", validation.quote(gang.name)
            if gang.member is None:
                self.found.append(
                    FieldError(pointer, f"is missing; other members of {name} have it")
                )
            elif numbers[gang.member] > 1:
                detail = f"is {gang.member}, the number of another member of {name}"
                self.found.append(FieldError(pointer, detail))

    def make_result(self) -> PreparedSubmission:
        """The jobs as events."""
        replace = msgspec.structs.replace
        jobs = [
            replace(template.event, job_id=job_id, client_id=client_id)
            for template, job_id, client_id in zip(
                self._templates, self._ids, self._client_ids, strict=True
            )
        ]
        for index, gang in self._gangs.items():
            jobs[index] = replace(jobs[index], gang=gang)
        for index, after in self._after.items():
            jobs[index] = replace(jobs[index], after=after)
        for index, terms in self._arrays.items():
            digest = array_terms.make_digest(jobs[index].digest, terms)
            jobs[index] = replace(jobs[index], digest=digest)
        return PreparedSubmission(
            queue=self._queue,
            job_set=self._job_set,
            partition=self._partition,
            jobs=jobs,
            outside=self._outside,
            arrays={self._ids[index]: terms for index, terms in self._arrays.items()},
            followed=self._followed,
            arrays_outside=self._arrays_outside,
        )


def _agree(one: events.Gang | None, other: events.Gang) -> bool:
    """Whether two members have the same `gang` except for their member numbers."""
    return one is not None and msgspec.structs.replace(one, member=other.member) == other
