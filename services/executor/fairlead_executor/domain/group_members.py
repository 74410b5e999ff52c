"""The groups with runs on one cluster: their members, and the files that runs read. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, RunId
from fairlead_common.domain.records.leases import GroupMembers, Lease, LeasedMember, LiveMember
from fairlead_executor.domain.cluster_protocol import GroupFile

_encoder: Final = msgspec.json.Encoder()


class _Local(msgspec.Struct):
    """What is known of a group by its leases here: its runs with their namespaces."""

    name: str
    service: bool
    namespaces: dict[RunId, str]


class Groups:
    """The members of groups as the scheduler reported them last, and the runs of each group here.

    A file is due when the members have changed, or when a run is about to be created.
    """

    def __init__(self) -> None:
        self.members: dict[GroupId, GroupMembers] = {}
        self._local: dict[GroupId, _Local] = {}
        self._due: set[GroupId] = set()

    @property
    def with_leases(self) -> Collection[GroupId]:
        """The groups that have leases here."""
        return self._local.keys()

    def fold_members(self, group: GroupId, members: GroupMembers | None) -> Iterable[RunId]:
        """Fold a record; the runs of the group here."""
        if members is None:
            self.members.pop(group, None)
        else:
            self.members[group] = members
            self._due.add(group)
        local = self._local.get(group)
        return () if local is None else local.namespaces

    def add_run(self, run: RunId, member: LeasedMember, namespace: str) -> None:
        """Add a run with a lease of a member."""
        new = _Local(member.name, member.service, {})
        local = self._local.setdefault(member.group, new)
        local.namespaces.setdefault(run, namespace)

    def drop_run(self, run: RunId, member: LeasedMember) -> None:
        """Forget a run of a member whose lease ended."""
        local = self._local.get(member.group)
        if local is None:
            return
        local.namespaces.pop(run, None)
        if not local.namespaces:
            del self._local[member.group]

    def take_files(self, creates: Iterable[Lease]) -> list[GroupFile]:
        """The files to write, before these runs are created."""
        self._due |= {lease.member.group for lease in creates if lease.member is not None}
        due, self._due = self._due, set()
        return [
            self._make_file(group, self._local[group])
            for group in sorted(due)
            if group in self._local
        ]

    def _make_file(self, group: GroupId, local: _Local) -> GroupFile:
        """The file, without members if the scheduler has not reported any yet."""
        known = self.members.get(group)
        members = [] if known is None else [_describe(member) for member in known.members]
        return GroupFile(
            group=group,
            name=local.name,
            runs=sorted(local.namespaces),
            content=_encoder.encode({"group": local.name, "members": members}),
            namespaces=sorted(set(local.namespaces.values())),
            service=local.service,
        )

    def find_master_address(self, member: LeasedMember) -> str | None:
        """The address of the master that a run needs, if that is another member and runs."""
        if member.master is None:
            return None
        known = self.members.get(member.group)
        master = None if known is None else known.find(*member.master)
        return None if master is None else master.address


def _describe(member: LiveMember) -> Mapping[str, object]:
    return {
        "role": member.role,
        "index": member.index,
        "host": member.host,
        "address": member.address,
        "state": member.state.value,
    }
