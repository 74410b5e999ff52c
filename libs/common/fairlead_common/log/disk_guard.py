"""A log on a disk of this machine: appends are refused before the disk is full."""

from fairlead_common.log.forwarding_log import ForwardingLog
from fairlead_common.log.guarded_producer import GuardedProducer
from fairlead_common.log.protocol import EventLog, Producer
from fairlead_common.service.disk import Disk, Space


class DiskGuardedLog(ForwardingLog):
    """An `EventLog` whose producers raise `LogFull` while the disk is full."""

    def __init__(self, inner: EventLog, disk: Disk) -> None:
        super().__init__(inner)
        self._disk = disk

    async def producer(self, name: str) -> Producer:
        """See `EventLog`."""
        return GuardedProducer(await self.inner.producer(name), self._check_space)

    async def _check_space(self) -> None:
        self._disk.check(Space.FULL)
