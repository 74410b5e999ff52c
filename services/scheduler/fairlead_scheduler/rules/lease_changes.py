"""The live leases that the leader knows, and the records that create, change and end leases.

A new leader restores them from the lease topics before it decides anything; then it updates them
with what it appends. `find_unwanted_leases` compares them with the runs of the view, so that a lost
or repeated decision cannot leave a lease in place.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from fairlead_common.domain.ids import JobId, RunId, parse_run_id, partition_of_job, run_id
from fairlead_common.domain.lifecycle import RunState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.group_terms import Rendezvous
from fairlead_common.domain.records.leases import DesiredState, Lease, LeasedMember
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import leases as leases_of
from fairlead_scheduler.rules.member_records import GroupRecords
from fairlead_scheduler.state.jobs import groups, job_table
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.view import View


class LeaseState(msgspec.Struct, frozen=True, gc=False):
    """What is known of one live lease. `given_up`: its run counts as lost."""

    executor: str
    desired_state: DesiredState
    given_up: bool = False


@lru_cache(maxsize=4096)
def lease_state(executor: str, desired_state: DesiredState, given_up: bool = False) -> LeaseState:
    """The state of a lease; equal ones share an object, because there can be a million."""
    return LeaseState(executor, desired_state, given_up)


class LeaseChange(msgspec.Struct, frozen=True, gc=False):
    """A record that creates, changes or ends a lease, and the state after it (None: ended)."""

    run: RunId
    state: LeaseState | None
    record: Record


class Leases:
    """Live leases by run. `given_up`: the runs with a lease that count as lost although their
    executors have not reported an end, each with its job."""

    def __init__(self) -> None:
        self.by_run: dict[RunId, LeaseState] = {}
        self.given_up: dict[RunId, JobId] = {}
        self.groups = GroupRecords()

    def read_back(self, executor: str, newest: dict[str, bytes]) -> None:
        """Restore the leases and the records of groups in the topic of an executor."""
        for run, value in newest.items():
            group = leases.group_of(run)
            if group is not None:
                self.groups.read_back(executor, group, value)
                continue
            self.by_run[RunId(run)] = lease_state(executor, _decoder.decode(value).desired_state)

    def assume_wanted(self, view: View) -> None:
        """Assume leases for live runs whose lease could not be read: executors may have them."""
        jobs = view.jobs
        rows = view.select_decidable(_live_runs(view))
        runs = map(run_id, jobs.rows.ids_at(rows), jobs.run[rows].tolist())
        for run, node in zip(runs, jobs.node[rows].tolist(), strict=True):
            if run not in self.by_run:
                self.by_run[run] = lease_state(jobs.nodes.values[node].executor, DesiredState.RUN)

    def apply(self, changes: Iterable[LeaseChange]) -> None:
        """Apply the changes of a completed append."""
        for change in changes:
            if change.state is None:
                self.by_run.pop(change.run, None)
                self.given_up.pop(change.run, None)
            else:
                self.by_run[change.run] = change.state
                if change.state.given_up:
                    self.given_up[change.run] = JobId(parse_run_id(change.run)[0])

    def list_violations(self) -> list[str]:
        """One sentence per run that counts as given up but has no lease."""
        return [
            f"run {run} is given up, without a lease" for run in self.given_up.keys() - self.by_run
        ]

    def is_run_desired(self, run: RunId) -> bool:
        """Whether the run has a lease with the desired state RUN."""
        known = self.by_run.get(run)
        return known is not None and known.desired_state is DesiredState.RUN

    def is_given_up(self, run: RunId) -> bool:
        """Whether this run counts as lost and its executor has not reported its end yet."""
        return run in self.given_up


class _DesiredStateOnly(msgspec.Struct, frozen=True):
    desired_state: DesiredState = msgspec.field(default=DesiredState.RUN, name="wish")


_decoder: Final = msgspec.json.Decoder(_DesiredStateOnly)


def new_lease(
    view: View,
    row: int,
    submitted: ev.JobSubmitted,
    node: job_table.NodeName,
    after: tuple[RunId, ...],
) -> LeaseChange:
    """The lease that starts the job's next run on this node."""
    jobs = view.jobs
    job_id, run = submitted.job_id, jobs.run.item(row) + 1
    job_set = jobs.job_sets.values[jobs.job_set.item(row)]
    environment = {
        "FAIRLEAD_JOB_ID": job_id,
        "FAIRLEAD_QUEUE": job_set.queue,
        "FAIRLEAD_JOB_SET": job_set.name,
        "FAIRLEAD_RUN": str(run),
    }
    if submitted.gang is not None:
        environment |= _gang_environment(submitted.gang)
    if submitted.group is not None:
        environment |= _group_environment(view, submitted.group)
    if submitted.array is not None:
        environment |= _array_environment(submitted.array)
    number = jobs.shape.item(row)
    shape = jobs.shapes.values[number].raw
    requests = jobs.shape_of(number).requests
    spec = submitted.spec
    if shape != bytes(submitted.shape):  # a retry gave it more memory
        before = shapes.decode(submitted.shape).requests[quantities.MEMORY]
        spec = quantities.scale_spec_memory(bytes(spec), before, requests[quantities.MEMORY])
    lease = Lease(
        job_id=job_id,
        run=run,
        queue=job_set.queue,
        job_set=job_set.name,
        node=node.node,
        grace_s=submitted.grace_s,
        runtime_s_max=submitted.runtime_s_max,
        namespace=submitted.namespace,
        after=after,
        env=environment,
        labels=submitted.labels,
        annotations=submitted.annotations,
        requests=requests,
        services=submitted.services,
        ingresses=submitted.ingresses,
        member=_leased_member(view, submitted.group),
        spec=spec,
    )
    return _make_change(node.executor, lease)


def _make_change(executor: str, lease: Lease, *, given_up: bool = False) -> LeaseChange:
    record = leases.record(executor, lease)
    return LeaseChange(
        RunId(record.key), lease_state(executor, lease.desired_state, given_up), record
    )


def _gang_environment(gang: ev.Gang) -> dict[str, str]:
    environment = {
        "FAIRLEAD_GANG_NAME": gang.name,
        "FAIRLEAD_GANG_SIZE": str(gang.size),
        "FAIRLEAD_GANG_MIN_SIZE": str(gang.min_size or gang.size),
    }
    if gang.member is not None:
        environment["FAIRLEAD_GANG_MEMBER"] = str(gang.member)
    if gang.uniformity_label is not None:
        environment["FAIRLEAD_GANG_UNIFORMITY_LABEL"] = gang.uniformity_label
    return environment


def _group_environment(view: View, member: ev.GroupMember) -> dict[str, str]:
    """The name of a member's group (its client id or its id), and the member's role and index."""
    state = view.groups.get(member.group)
    if state is None:
        return {}
    role = next(role for role in state.terms.roles if role.name == member.role)
    return {
        "FAIRLEAD_GROUP": state.client_id or state.group,
        "FAIRLEAD_ROLE": member.role,
        "FAIRLEAD_ROLE_INDEX": str(member.index),
        "FAIRLEAD_ROLE_MIN": str(role.min),
        "FAIRLEAD_ROLE_MAX": str(role.max),
        "FAIRLEAD_GROUP_SIZE": str(sum(role.min for role in state.terms.roles)),
        **_rendezvous_environment(state, member),
    }


def _rendezvous_environment(state: GroupState, member: ev.GroupMember) -> dict[str, str]:
    """The variables of the framework; its executor adds the address of the master."""
    if state.terms.network.rendezvous is not Rendezvous.TORCH:
        return {}
    return {
        "MASTER_PORT": str(groups.rendezvous_port(state.group)),
        "RANK": str(groups.rank_of_member(state.terms, member)),
        "WORLD_SIZE": str(sum(role.min for role in state.terms.roles)),
    }


def _leased_member(view: View, member: ev.GroupMember | None) -> LeasedMember | None:
    """What the executor of a member has to know about its group."""
    state = None if member is None else view.groups.get(member.group)
    if member is None or state is None:
        return None
    startup = state.terms.startup
    place = startup.index(member.role) if member.role in startup else 0
    return LeasedMember(
        group=state.group,
        name=state.client_id or state.group,
        role=member.role,
        index=member.index,
        service=state.terms.network.headless_service,
        starts_after=startup[:place],
        master=groups.find_master(state),
    )


def _array_environment(task: ev.ArrayTask) -> dict[str, str]:
    return {
        "FAIRLEAD_ARRAY_ID": task.array,
        "FAIRLEAD_ARRAY_INDEX": str(task.index),
        "FAIRLEAD_ARRAY_COUNT": str(task.count),
        "JOB_COMPLETION_INDEX": str(task.index),  # what Kubernetes calls it
    }


def stop_lease(
    view: View,
    row: int,
    reason: str,
    failure: FailureCategory | None = None,
    *,
    given_up: bool = False,
) -> LeaseChange:
    """The lease that asks the job's live run to end; with a `failure` it then counts as failed.

    `given_up`: the run counts as lost already; the lease stays until its executor reports an end.
    """
    jobs = view.jobs
    node = jobs.nodes.values[jobs.node.item(row)]
    job_set = jobs.job_sets.values[jobs.job_set.item(row)]
    lease = Lease(
        job_id=jobs.rows.id_at(row),
        run=jobs.run.item(row),
        queue=job_set.queue,
        job_set=job_set.name,
        node=node.node,
        desired_state=DesiredState.STOP,
        reason=reason,
        failure=failure,
        grace_s=jobs.grace_s.item(row),
    )
    return _make_change(node.executor, lease, given_up=given_up)


def end_lease(
    live_leases: Leases, run: RunId, executor: str | None = None
) -> tuple[LeaseChange, ...]:
    """The record that ends the lease of a run; empty if there is no such lease."""
    known = live_leases.by_run.get(run)
    name = known.executor if known is not None else executor
    return () if name is None else (LeaseChange(run, None, leases.deletion_record(name, run)),)


def end_leases(runs: Sequence[RunId], executors: Sequence[str]) -> list[LeaseChange]:
    """The records that end the leases of these runs of these executors."""
    topics = {name: leases_of(name).name for name in set(executors)}
    return [
        LeaseChange(run, None, Record(topics[executor], run, None))
        for run, executor in zip(runs, executors, strict=True)
    ]


NO_LEASE: Final = (
    "its lease is not in the log any more: the log was restored from a backup or created again"
)


def find_executors_in_use(view: View) -> set[str]:
    """The executors that have live runs."""
    numbers = np.unique(view.jobs.node[_live_runs(view)])
    nodes = view.jobs.nodes.values
    return {nodes[number].executor for number in numbers.tolist() if number >= 0}


def find_runs_without_lease(
    view: View, live_leases: Leases
) -> dict[RunId, tuple[job_table.JobSet, ev.JobRunLost]]:
    """Live runs without a lease, and the events that end them.

    A lease is appended with its run, and deleted in the append that ends the run, so an intact log
    has no such runs. A new leader checks this after reading both to the end.
    """
    jobs = view.jobs
    rows = view.select_decidable(_live_runs(view))
    found = {}
    for job_id, row in zip(jobs.rows.ids_at(rows), rows.tolist(), strict=True):
        run = run_id(job_id, jobs.run.item(row))
        if run not in live_leases.by_run:
            lost = ev.JobRunLost(job_id=job_id, run=jobs.run.item(row), reason=NO_LEASE)
            found[run] = jobs.job_sets.values[jobs.job_set.item(row)], lost
    return found


def _live_runs(view: View) -> job_table.Rows:
    rows = view.live_rows()
    live: job_table.Rows = rows[job_table.IS_LIVE_RUN[view.jobs.run_state[rows]]]
    return live


def find_unwanted_leases(view: View, live_leases: Leases) -> list[RunId]:
    """Live leases of runs that have ended or that the view does not know, from all leases.

    A new leader calls this once. After that `View.orphaned_runs` and `View.rows_to_examine` list
    such runs. A lease that stops a lost run is added to `Leases.given_up` instead: it stays until
    the executor reports the end of the run. An executor that had reported it does so again.
    """
    jobs = view.jobs
    unwanted = []
    for run, known in live_leases.by_run.items():
        if is_in_stopped_partition(view, run):
            continue
        job_id, number = parse_run_id(run)
        row = jobs.rows.get(JobId(job_id))
        if row is None:
            unwanted.append(run)
            continue
        newest = jobs.run.item(row)
        run_state = jobs.run_state.item(row)
        if newest < number or (newest == number and job_table.LIVE_RUN[run_state]):
            continue
        is_decided_next = newest == number and job_table.WITH_RUN[jobs.state.item(row)]
        if is_decided_next and (run_state != _LOST or known.desired_state is DesiredState.RUN):
            continue
        if known.desired_state is DesiredState.STOP:
            live_leases.given_up[run] = JobId(job_id)
        else:
            unwanted.append(run)
    return unwanted


_LOST: Final = job_table.RUN_CODE[RunState.LOST]


def is_in_stopped_partition(view: View, run: RunId) -> bool:
    """Whether the partition of this run's job is stopped, so the state of the run is unknown."""
    return bool(view.stopped) and partition_of_job(parse_run_id(run)[0]) in view.stopped
