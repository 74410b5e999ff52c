"""Groups: distributed jobs of several roles."""

from collections.abc import Mapping

from fairlead.models.job_models import Job, WaitingReason
from fairlead.models.model_bases import RequestModel, ResponseModel


class GroupRole(RequestModel, frozen=True, kw_only=True):
    """Identical members of a group: `min` that it needs to run, and `max` that there are (default:
    `min`). `template`: a job without client id, gang and `after`."""

    name: str
    min: int
    max: int | None = None
    template: Job | Mapping[str, object]


class Completion(RequestModel, frozen=True, kw_only=True):
    """The group succeeds when `count` members of these roles have succeeded (default: all)."""

    roles: tuple[str, ...] = ()
    count: int | None = None


class Elastic(RequestModel, frozen=True, kw_only=True):
    """How a group grows: the seconds between two changes of its surplus, and the most surplus
    members of a role that start at once."""

    freeze_seconds: int | None = None
    step_max: int | None = None


class GroupNetwork(RequestModel, frozen=True, kw_only=True):
    """How members find each other. `headless_service`: on Kubernetes `<role>-<index>.<group>`
    resolves. `rendezvous`: `torch` sets its variables."""

    headless_service: bool | None = None
    rendezvous: str | None = None


class Topology(RequestModel, frozen=True, kw_only=True):
    """Where members are: in one domain of a `level` of the pool's topology, or of the widest level
    of at most `max_hops` (`mode` required), or as close as possible (preferred). `scope`: role or
    group."""

    level: str | None = None
    max_hops: int | None = None
    mode: str | None = None
    scope: str | None = None


class GroupSpec(RequestModel, frozen=True, kw_only=True):
    """A group to submit. `on_member_failure`: restartMember, restartGroup or fail. `startup`:
    roles in the order in which their members start."""

    client_id: str | None = None
    priority_class: str | None = None
    priority: int | None = None
    labels: Mapping[str, str] | None = None
    roles: tuple[GroupRole, ...]
    completion: Completion | None = None
    on_member_failure: str | None = None
    restart_limit: int | None = None
    elastic: Elastic | None = None
    startup: tuple[str, ...] | None = None
    network: GroupNetwork | None = None
    topology: Topology | None = None


class RoleChange(RequestModel, frozen=True, kw_only=True):
    """New numbers of members of a role, or a new template for them."""

    name: str
    min: int | None = None
    max: int | None = None
    template: Job | Mapping[str, object] | None = None


class GroupChange(RequestModel, frozen=True, kw_only=True):
    """What changes of a group; the rest stays as it is."""

    roles: tuple[RoleChange, ...] | None = None
    priority: int | None = None
    elastic: Elastic | None = None


class SubmittedMember(ResponseModel, frozen=True, kw_only=True):
    """A member of a submitted group."""

    id: str
    client_id: str
    role: str
    index: int


class RoleVerdict(ResponseModel, frozen=True, kw_only=True):
    """Whether the minimum of a role could run alone; None if that is unknown."""

    name: str
    feasible: bool | None = None
    why: str | None = None


class SubmittedGroup(ResponseModel, frozen=True, kw_only=True):
    """A submitted group. `duplicate`: it existed already. Only of a dry run: `roles`, and whether
    all together could ever run (`feasible`, None if that is unknown) and what prevents it."""

    id: str
    client_id: str | None = None
    duplicate: bool = False
    members: tuple[SubmittedMember, ...] = ()
    roles: tuple[RoleVerdict, ...] = ()
    feasible: bool | None = None
    why: str | None = None


class GroupSubmitResult(ResponseModel, frozen=True, kw_only=True):
    """The submitted groups, in the given order; a dry run has no position."""

    position: str | None = None
    groups: tuple[SubmittedGroup, ...]


class GroupActionResult(ResponseModel, frozen=True, kw_only=True):
    """What was requested. `position` None: nothing was written, because the group had ended, or had
    these terms already. `submitted`: new members."""

    id: str
    position: str | None = None
    submitted: int = 0


class RoleScaling(ResponseModel, frozen=True, kw_only=True):
    """How a role was scaled. `change`: the scheduler `started` or `stopped` surplus members (their
    number is `members`), or a user `changed` the minimum or maximum."""

    time: str
    change: str
    members: int = 0
    by: str = ""
    reason: str | None = None


class RoleCounts(ResponseModel, frozen=True, kw_only=True):
    """The members of a role by state. `stopped`: cancelled, preempted or rejected. `hops`: the
    distance of the farthest ones that run, of a group with a topology. `last_scaling`: only of a
    single group."""

    name: str
    min: int
    max: int
    queued: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    stopped: int = 0
    hops: int | None = None
    last_scaling: RoleScaling | None = None


class GroupView(ResponseModel, frozen=True, kw_only=True):
    """A group in a list. `last_change`: the newest public event about it, with its `reason`."""

    id: str
    queue: str
    job_set: str
    client_id: str | None = None
    state: str
    roles: tuple[RoleCounts, ...]
    restarts: int = 0
    last_change: str
    reason: str | None = None
    changed_by: str | None = None
    submitted: str
    changed: str
    started: str | None = None
    ended: str | None = None


class GroupMember(ResponseModel, frozen=True, kw_only=True):
    """A job that is a member of a group."""

    id: str
    role: str
    index: int
    generation: int = 1
    state: str
    run: int = 0
    cluster: str | None = None
    node: str | None = None
    reason: str | None = None
    submitted: str
    started: str | None = None
    ended: str | None = None


class TopologyView(ResponseModel, frozen=True, kw_only=True):
    """Where the members of a group are to be: see `Topology`."""

    level: str | None = None
    max_hops: int | None = None
    mode: str
    scope: str


class GroupDetail(GroupView, frozen=True, kw_only=True):
    """Everything about a group with its members, the newest of each index. `why`: why queued
    members wait. `earlier_members`: how many were scaled away or are of an earlier generation."""

    why: WaitingReason | None = None
    labels: Mapping[str, str] = {}
    completion_roles: tuple[str, ...] = ()
    completion_count: int | None = None
    on_member_failure: str
    restart_limit: int = 0
    freeze_seconds: int = 0
    step_max: int = 0
    startup: tuple[str, ...] = ()
    headless_service: bool = False
    rendezvous: str | None = None
    topology: TopologyView | None = None
    generation: int = 1
    priority: int | None = None
    members: tuple[GroupMember, ...] = ()
    earlier_members: int = 0
