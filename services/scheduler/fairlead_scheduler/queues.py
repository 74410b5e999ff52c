"""The fold of `fairlead.config`: queues, as the highest version says, and operators' cordons."""

from collections.abc import Iterable

from fairlead_common import configuration
from fairlead_common.configuration import Cordon, Queue
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.clusters import Clusters


class Queues:
    """Queues by name; a name that nobody configured (yet) counts with weight 1."""

    def __init__(self) -> None:
        self.by_name: dict[str, Queue] = {}
        self._cordons: dict[str, int] = {}
        self.version = 0

    def apply(self, entries: Iterable[Entry], clusters: Clusters) -> None:
        """Fold configuration; of two values the higher version counts, in whatever order."""
        for entry in entries:
            if entry.value is None:
                continue
            match configuration.decode(entry.value):
                case Queue() as queue:
                    known = self.by_name.get(queue.name)
                    if known is None or known.version < queue.version:
                        self.by_name[queue.name] = queue
                        self.version += 1
                case Cordon() as cordon:
                    key = configuration.key(cordon)
                    if self._cordons.get(key, 0) < cordon.version:
                        self._cordons[key] = cordon.version
                        clusters.cordon(cordon)

    def get(self, name: str) -> Queue:
        """The queue of that name."""
        return self.by_name.get(name) or Queue(name=name)
