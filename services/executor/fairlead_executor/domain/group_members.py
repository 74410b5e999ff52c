"""The groups with runs on one cluster: their members, and the files that runs read. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, RunId
from fairlead_common.domain.records.leases import GroupMembers, Lease, LiveMember
from fairlead_executor.domain.cluster_protocol import GroupFile

_encoder: Final = msgspec.json.Encoder()


class Groups:
    """The members of groups as the scheduler reported them last, and the runs of each group here.

    A file is due when the members have changed, or when a run is about to be created.
    """

    def __init__(self) -> None:
        self.members: dict[GroupId, GroupMembers] = {}
        self._runs: dict[GroupId, set[RunId]] = {}
        self._names: dict[GroupId, str] = {}
        self._due: set[GroupId] = set()

    def fold_members(self, group: GroupId, members: GroupMembers | None) -> Iterable[RunId]:
        """Fold a record; the runs of the group here."""
        if members is None:
            self.members.pop(group, None)
        else:
            self.members[group] = members
            self._due.add(group)
        return self._runs.get(group, ())

    def add_run(self, run: RunId, lease: Lease) -> None:
        """Add a run with a lease, if it is of a member of a group."""
        if lease.member is not None:
            self._runs.setdefault(lease.member.group, set()).add(run)
            self._names[lease.member.group] = lease.member.name

    def drop_run(self, run: RunId, lease: Lease) -> None:
        """Forget a run whose lease ended."""
        group = None if lease.member is None else lease.member.group
        runs = None if group is None else self._runs.get(group)
        if group is None or runs is None:
            return
        runs.discard(run)
        if not runs:
            del self._runs[group], self._names[group]

    def take_files(self, creates: Iterable[Lease]) -> list[GroupFile]:
        """The files to write, before these runs are created."""
        self._due |= {lease.member.group for lease in creates if lease.member is not None}
        due, self._due = self._due, set()
        return [
            GroupFile(group, self._names[group], sorted(self._runs[group]), self._content(group))
            for group in sorted(due)
            if group in self._runs
        ]

    def _content(self, group: GroupId) -> bytes:
        """The file as JSON; without members if the scheduler has not reported any yet."""
        known = self.members.get(group)
        members = [] if known is None else [_describe(member) for member in known.members]
        return _encoder.encode({"group": self._names[group], "members": members})

    def find_master_address(self, lease: Lease) -> str | None:
        """The address of the master that the run needs, if that is another member and runs."""
        member = lease.member
        if member is None or member.master is None:
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
