"""What a server has now: queues, classes, nodes and jobs that have not ended, as JSON values.

`fairlead simulate --from-live` begins there. It belongs to another package, which shares no code
with the client, so the values are the ones of the public API.
"""

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from fairlead import Client

LIVE: Final = ("QUEUED", "LEASED", "PENDING", "RUNNING")


def read_cluster(client: "Client") -> dict[str, object]:
    """`queues`, `priorityClasses`, `clusters` with their `nodes`, and `jobs`, the oldest first."""
    from fairlead import Filter

    clusters = [
        {
            **msgspec.to_builtins(cluster),
            "nodes": [msgspec.to_builtins(node) for node in client.nodes(cluster.executor)],
        }
        for cluster in client.clusters()
    ]
    exported = client.export_jobs(
        Filter(states=LIVE), format="ndjson", sort="submitted", submission=True
    )
    return {
        "queues": [msgspec.to_builtins(queue) for queue in client.queues()],
        "priorityClasses": [msgspec.to_builtins(one) for one in client.priority_classes()],
        "clusters": clusters,
        "jobs": [msgspec.json.decode(line) for line in b"".join(exported).splitlines()],
    }
