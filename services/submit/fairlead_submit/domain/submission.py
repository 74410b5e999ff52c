"""From a submission to events with ids, or to everything that is wrong with it. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_submit.domain import name_rules, secret_variables, validation
from fairlead_submit.domain.decoding import invalid
from fairlead_submit.domain.job_templates import Template, Templates
from fairlead_submit.domain.policy import Limits
from fairlead_submit.domain.request_types import Job, Submission
from fairlead_submit.domain.secret_variables import QueueSecrets


class Prepared(msgspec.Struct, frozen=True):
    """Jobs that are ready for the log, in the order given.

    `outside`: ids named by `after` that are not of this request, with the pointer of the first.
    """

    queue: str
    job_set: str
    partition: int
    jobs: list[events.JobSubmitted]
    outside: dict[JobId, str]


class Place(msgspec.Struct, frozen=True):
    """What the ids of a submission are made of."""

    now_ms: int
    random_79: int


def prepare(
    request: Submission,
    known: list[FieldError],
    templates: Templates,
    limits: Limits,
    place: Place,
    secrets: QueueSecrets = secret_variables.NONE,
) -> tuple[Prepared, list[FieldError]]:
    """The jobs as events, and every fault, `known` ones first.

    Whether the queue exists is not known here. The jobs mean nothing when there are faults.
    Raises a `Problem` itself: 422 when there are very many, 413 for jobs that take too much room.
    """
    found: list[FieldError] = []
    queue, job_set = request.queue, request.job_set
    if queue is None:
        found.append(FieldError("/queue", "is missing"))
    elif detail := name_rules.queue(queue):
        found.append(FieldError("/queue", detail))
    if job_set is None:
        found.append(FieldError("/jobSet", "is missing"))
    elif detail := name_rules.job_set(job_set):
        found.append(FieldError("/jobSet", detail))
    jobs = request.jobs or []
    found += _count_faults(request.jobs, limits.jobs_max)
    if len(jobs) > limits.jobs_max:
        jobs = []
    if request.defaults is not None and request.defaults.client_id is not None:
        found.append(FieldError("/defaults/clientId", "would name every job alike"))
    client_ids = _take_client_ids(jobs, request.defaults)
    batch = _Batch(queue or "", job_set or "", client_ids)
    shared = templates.shared(queue or "", request.defaults, secrets)
    batch.use(limits.events_bytes_max, (templates.of(job, shared) for job in jobs))
    batch.name(place)
    batch.resolve_after(limits.after_max)
    batch.check_gangs()
    return batch.prepared(), [*known, *validation.further([*found, *batch.found], known)]


def _count_faults(jobs: Sequence[Job] | None, jobs_max: int) -> list[FieldError]:
    if jobs is None:
        return [FieldError("/jobs", "is missing")]
    if not jobs:
        return [FieldError("/jobs", "holds no job")]
    if len(jobs) > jobs_max:
        return [FieldError("/jobs", f"holds {len(jobs)} jobs; at most {jobs_max} are allowed")]
    return []


def _take_client_ids(jobs: Sequence[Job], defaults: Job | None) -> list[str | None]:
    """Jobs that are alike but for their client ids then share a template."""
    client_ids = [job.client_id for job in jobs]
    for job in jobs:
        job.client_id = None
    if defaults is not None:
        defaults.client_id = None
    return client_ids


class _Batch:
    """The jobs of one request as columns, filled step by step."""

    def __init__(self, queue: str, job_set: str, client_ids: list[str | None]) -> None:
        self.found: list[FieldError] = []
        self._queue = queue
        self._job_set = job_set
        self._partition = ids.job_set_partition(queue, job_set)
        self._client_ids = client_ids
        self._templates: list[Template] = []
        self._ids: list[JobId] = []
        self._after: dict[int, tuple[JobId, ...]] = {}
        self._outside: dict[JobId, str] = {}
        self._gangs: dict[int, events.Gang] = {}

    def use(self, bytes_max: int, templates: Iterable[Template]) -> None:
        """What becomes of each job, and what is wrong with each, until it is too much."""
        size = 0
        for index, template in enumerate(templates):
            self._templates.append(template)
            size += template.size
            if template.faults or template.shared:
                self.found += template.shared
                self.found += [
                    FieldError(f"/jobs/{index}{fault.pointer}", fault.detail)
                    for fault in template.faults
                ]
                if len(self.found) >= validation.FAULTS_MAX:
                    raise invalid(self.found)
        if size > bytes_max:
            raise Problem(
                "too-large",
                f"With what they share, the jobs take {size} bytes; at most {bytes_max} are"
                " allowed in one request. Send them in several.",
            )

    def name(self, place: Place) -> None:
        """Give every job its id: derived from its client id, else a fresh one."""
        given = [client_id for client_id in self._client_ids if client_id is not None]
        if not "".join(given).isprintable():
            odd = {text for text in given if not text.isprintable()}
            self._say_of(odd, "holds characters that cannot be printed")
        if len(set(given)) < len(given):
            twice = {text for text, count in Counter(given).items() if count > 1}
            self._say_of(twice, "names several jobs of this request")
        derived = ids.client_job_ids(self._partition, self._queue, self._job_set, given)
        if len(given) == len(self._client_ids):
            self._ids = derived
            return
        named = iter(derived)
        self._ids = [
            ids.new_job_id(self._partition, place.now_ms, place.random_79 + index)
            if client_id is None
            else next(named)
            for index, client_id in enumerate(self._client_ids)
        ]

    def _say_of(self, client_ids: set[str], detail: str) -> None:
        self.found += [
            FieldError(f"/jobs/{index}/clientId", f"{validation.shown(text)} {detail}")
            for index, text in enumerate(self._client_ids)
            if text in client_ids
        ]

    def resolve_after(self, after_max: int) -> None:
        """Find the ids of what jobs wait for. A job stands behind those it names."""
        waiting = [n for n, template in enumerate(self._templates) if template.after]
        if not waiting:
            return
        count = sum(len(self._templates[index].after) for index in waiting)
        if count > after_max:
            detail = f"name {count} others in `after`; at most {after_max} are allowed"
            self.found.append(FieldError("/jobs", detail))
            return
        places = {text: index for index, text in enumerate(self._client_ids) if text is not None}
        for index in waiting:
            names_given = self._templates[index].after
            self._after[index] = tuple(
                self._resolved(text, f"/jobs/{index}/after/{number}", index, places)
                for number, text in enumerate(names_given)
            )

    def _resolved(self, text: str, pointer: str, index: int, places: dict[str, int]) -> JobId:
        at = places.get(text)
        if at is None:
            job_id = self._known_elsewhere(text)
            self._outside.setdefault(job_id, pointer)
            return job_id
        if at >= index:
            what = "is this job itself" if at == index else f"is job {at}, which comes later"
            self.found.append(
                FieldError(pointer, f"{what}; a job stands behind those it waits for")
            )
        return self._ids[at]

    def _known_elsewhere(self, text: str) -> JobId:
        """A job id of this job set as it is; anything else is a client id."""
        if len(text) == ids.JOB_ID_LENGTH:
            try:
                if ids.partition_of_job(text) == self._partition:
                    return JobId(text)
            except ValueError:
                pass
        return ids.client_job_id(self._partition, self._queue, self._job_set, text)

    def check_gangs(self) -> None:
        """Members of a gang agree on its terms and pool, are no more than it says, and have a
        number each if they say so or are all there.
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
            name = validation.shown(gang.name)
            if not _agree(leader.gang, gang):
                detail = f"says of gang {name} something else than the member before it"
                self.found.append(FieldError(f"/jobs/{index}/gang", detail))
            elif leader.pool != template.event.pool:
                detail = f"differs from the pool {leader.pool!r} of the other members of {name}"
                self.found.append(FieldError(f"/jobs/{index}/pool", detail))
            elif len(known) == gang.size + 1:
                detail = f"is {gang.size}, but the request has more members of {name}"
                self.found.append(FieldError(f"/jobs/{index}/gang/size", detail))
        for indexes in members.values():
            self._number(indexes)

    def _number(self, members: list[int]) -> None:
        """Members that say no number get their place; not when others may come elsewhere."""
        gangs = {index: gang for index in members if (gang := self._templates[index].event.gang)}
        said = Counter(gang.member for gang in gangs.values())
        if said.keys() == {None}:
            if len(members) == gangs[members[0]].size:
                for number, (index, gang) in enumerate(gangs.items()):
                    self._gangs[index] = msgspec.structs.replace(gang, member=number)
            return
        for index, gang in gangs.items():
            pointer, name = f"/jobs/{index}/gang/member", validation.shown(gang.name)
            if gang.member is None:
                self.found.append(
                    FieldError(pointer, f"is missing; other members of {name} say theirs")
                )
            elif said[gang.member] > 1:
                detail = f"is {gang.member}, as is that of another member of {name}"
                self.found.append(FieldError(pointer, detail))

    def prepared(self) -> Prepared:
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
        return Prepared(
            queue=self._queue,
            job_set=self._job_set,
            partition=self._partition,
            jobs=jobs,
            outside=self._outside,
        )


def _agree(one: events.Gang | None, other: events.Gang) -> bool:
    """Whether two members say the same of their gang."""
    return one is not None and msgspec.structs.replace(one, member=other.member) == other
