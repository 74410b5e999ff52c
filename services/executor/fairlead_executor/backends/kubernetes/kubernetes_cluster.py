"""The Kubernetes backend: pods of one cluster, seen by a watch and changed by requests.

The API server is the source of truth. A watch brings each run's record up to date; whatever differs
from what is wanted of the run is requested by one of a bounded number of tasks, until it is so. A
pod has a finalizer, so that it exists until its end was reported.
"""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

from fairlead_common.db.connection_pool import CONNECT_S_MAX
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.ids import GroupId, RunId, run_id
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.secret_values import Keyring
from fairlead_common.service import clock
from fairlead_common.service.json_logging import run_fields
from fairlead_common.service.startup_retries import until_available
from fairlead_executor.backends.kubernetes import pod_logs
from fairlead_executor.backends.kubernetes.api_client import ApiClient, ApiRefused, ApiUnavailable
from fairlead_executor.backends.kubernetes.api_probe import ApiProbe
from fairlead_executor.backends.kubernetes.device_watches import DeviceWatches
from fairlead_executor.backends.kubernetes.domain import (
    api_objects,
    pending_pods,
    pod_manifest,
    run_records,
)
from fairlead_executor.backends.kubernetes.domain.api_objects import (
    NodeObject,
    ObjectMeta,
    PodObject,
)
from fairlead_executor.backends.kubernetes.domain.cluster_nodes import ClusterNodes
from fairlead_executor.backends.kubernetes.domain.node_devices import NodeDevices
from fairlead_executor.backends.kubernetes.domain.pod_manifest import Owner
from fairlead_executor.backends.kubernetes.domain.run_records import RunRecord
from fairlead_executor.backends.kubernetes.group_objects import GroupObjects
from fairlead_executor.backends.kubernetes.run_requests import Requests
from fairlead_executor.backends.kubernetes.watches import (
    ObjectList,
    ObjectWatch,
    Receiver,
    retry_pause_s,
)
from fairlead_executor.domain import pods, run_logs
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.service.settings import ExecutorSettings

CHECK_S: Final = 1.0

_logger = logging.getLogger("fairlead.executor")


class KubernetesCluster:
    """A `Cluster`; see `cluster_protocol.py`. Created by `open`."""

    backend = "kubernetes"
    stops_with_executor = False

    def __init__(
        self,
        client: ApiClient,
        settings: ExecutorSettings,
        log_id: str,
        clock_ms: Callable[[], int],
        chance: Callable[[], float],
    ) -> None:
        own = self._settings = settings.kubernetes
        self._client = client
        self._clock_ms = clock_ms
        self._chance = chance
        self._owner = Owner(settings.executor, hashlib.sha256(log_id.encode()).hexdigest()[:16])
        devices = NodeDevices(own.device_resources, self._is_own_pod)
        self._cluster_nodes = ClusterNodes(
            settings.executor, settings.pool, own.pool_label, own.other_priority_min, devices
        )
        keyring = Keyring(settings.secrets_key)
        self._requests = Requests(client, self._owner, own, keyring, clock_ms)
        self._group_objects = GroupObjects(
            client, self._owner, self._find_pods, self._fail_group, chance
        )
        self._records: dict[RunId, RunRecord] = {}
        self._pods: dict[RunId, Pod] = {}
        self._changed: dict[RunId, None] = {}
        self._changed_event = asyncio.Event()
        self._due: asyncio.Queue[RunId] = asyncio.Queue()
        """Runs with a next operation; each is there once."""
        self._unsettled: dict[RunId, None] = {}
        """Live runs that have not started, or are stopping; released runs whose pod exists."""
        self._retained: deque[tuple[int, RunId]] = deque()
        """Ended runs whose pods are retained for their logs, the oldest first."""
        self._probe = ApiProbe(client, own.probe_timeout_s / 2, own.probe_timeout_s)
        self._pod_watch = ObjectWatch(
            client,
            "/api/v1/pods",
            api_objects.pod_decoder,
            Receiver(self._replace_pods, self._put_pod, self._delete_pod),
            chance,
        )
        self._node_watch = ObjectWatch(
            client,
            "/api/v1/nodes",
            api_objects.node_decoder,
            Receiver(self._replace_nodes, self._put_node, self._delete_node),
            chance,
            _selector(own.node_selector),
        )
        watches = DeviceWatches(client, devices, self._note_devices, chance).watches
        self._device_watches = watches if own.device_resources else ()

    @classmethod
    async def open(
        cls, settings: ExecutorSettings, log_id: str, chance: Callable[[], float]
    ) -> "KubernetesCluster":
        """The cluster with all its nodes and pods; waits while the API server is unavailable.

        Raises `WorldError` if it is still unavailable after `CONNECT_S_MAX`, or refuses a list.
        """
        client = await ApiClient.open(settings.kubernetes, clock.monotonic_s)
        cluster = cls(client, settings, log_id, clock.now_ms, chance)
        waits = until_available(
            f"the cluster at {client.url}", (ApiUnavailable,), CONNECT_S_MAX, _logger
        )
        try:
            await waits(cluster._node_watch.list_all)
            await waits(cluster._pod_watch.list_all)
            for watch in cluster._device_watches:
                await waits(watch.list_all)
        except (ApiUnavailable, ApiRefused) as error:
            await client.close()
            raise WorldError(client.describe_failure(error)) from error
        except BaseException:
            await client.close()
            raise
        return cluster

    @property
    def pods(self) -> Mapping[RunId, Pod]:
        """See `Cluster`."""
        return self._pods

    @property
    def pod_lists(self) -> int:
        """How often all pods were listed."""
        return self._pod_watch.lists

    def nodes(self) -> Sequence[Node]:
        """See `Cluster`."""
        return self._cluster_nodes.nodes()

    def problem(self) -> str | None:
        """See `Cluster`."""
        devices = (watch.problem for watch in self._device_watches)
        problems = (self._pod_watch.problem, self._node_watch.problem, *devices)
        error = next(filter(None, problems), self._probe.problem)
        if error is None:
            return None
        return (
            f"the API server of the cluster cannot be read: {error}. Runs continue; what happens to"
            " them is reported as soon as it answers."
        )

    def changes(self, now_ms: int) -> Collection[RunId]:
        """See `Cluster`."""
        self._changed_event.clear()
        changed, self._changed = self._changed, {}
        return changed.keys()

    async def changed(self) -> None:
        """See `Cluster`."""
        await self._changed_event.wait()

    def create(self, leases: Sequence[Lease], now_ms: int) -> None:
        """See `Cluster`."""
        for lease in leases:
            run = run_id(lease.job_id, lease.run)
            if run in self._records:
                self._restore_secrets(self._records[run], lease)
                continue
            record = RunRecord(run=run, namespace=lease.namespace, lease=lease)
            if lease.node not in self._cluster_nodes:
                end = pods.returned(f"the cluster has no node {lease.node}")
                run_records.refuse(record, end, now_ms)
            self._records[run] = record
            self._update(record)

    def write_group_file(self, group: GroupFile) -> None:
        """See `Cluster`."""
        self._group_objects.write(group)

    def retain_groups(self, groups: Collection[GroupId]) -> None:
        """See `Cluster`."""
        self._group_objects.retain(groups)

    def _find_pods(self, runs: Sequence[RunId], namespace: str) -> list[PodObject]:
        found = (self._records[run].observed for run in runs if run in self._records)
        return [pod for pod in found if pod is not None and pod.metadata.namespace == namespace]

    def _fail_group(self, group: GroupFile, reason: str) -> None:
        for run in group.runs:
            end = pods.failed(FailureCategory.ADMISSION, reason)
            self.stop(run, run_records.GRACE_S_MIN, end)

    def _restore_secrets(self, record: RunRecord, lease: Lease) -> None:
        try:
            self._requests.restore_secrets(record, lease)
        except pod_manifest.Refused as error:
            # Its Secret probably exists: the executor that made the pod had the key.
            _logger.warning(
                "cannot make sure that %s has its Secret: %s",
                *(record.run, error),
                extra=run_fields(record.run),
            )
        self._update(record)

    def stop(self, run: RunId, grace_s: int, end: End) -> None:
        """See `Cluster`."""
        pod = self._pods.get(run)
        if pod is not None and pod.live:
            record = self._records[run]
            run_records.request_stop(record, grace_s, end)
            self._update(record)

    def prevent_start(self, run: RunId, end: End, now_ms: int, namespace: str = "default") -> None:
        """See `Cluster`."""
        if run not in self._records:
            record = RunRecord(run=run, namespace=namespace, prevented_end=end)
            self._records[run] = record
            self._update(record)

    def remove(self, runs: Sequence[RunId]) -> None:
        """See `Cluster`."""
        for run in runs:
            pod = self._pods.get(run)
            if pod is None or pod.live:
                continue
            record = self._records[run]
            record.removed = True
            if pod.started_ms:
                self._retained.append((self._clock_ms(), run))
            else:
                record.release_requested = True
            self._update(record)
            self._changed.pop(run, None)
        self._release_retained()

    async def logs(self, run: RunId, request: run_logs.LogRequest) -> AsyncIterator[bytes]:
        """See `Cluster`."""
        pod, has_ended = self._find_logged(run)
        async for part in pod_logs.read(self._client, pod, request, has_ended):
            yield part

    async def log_end(self, run: RunId, request: run_logs.LogEndRequest) -> run_logs.LogEnd:
        """See `Cluster`."""
        pod, has_ended = self._find_logged(run)
        return await pod_logs.read_end(self._client, pod, request, has_ended)

    def _find_logged(self, run: RunId) -> tuple[PodObject, Callable[[], bool]]:
        """The pod with the log of a run, and whether the run has ended. Raises `run_logs.NoLog`."""
        record = self._records.get(run)
        if record is None or record.observed is None:
            raise run_logs.NoLog("the run has not started here, or its pod has been removed")
        return record.observed, lambda: record.ended is not None

    async def run(self) -> None:
        """See `Cluster`: follow pods and nodes, send requests, check what is due."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pod_watch.run(), name="pods")
            tasks.create_task(self._node_watch.run(), name="nodes")
            for watch in self._device_watches:
                tasks.create_task(watch.run(), name="devices")
            tasks.create_task(self._probe.run(), name="probe")
            tasks.create_task(self._group_objects.run(), name="groups")
            tasks.create_task(self._check_periodically(), name="check")
            for number in range(self._settings.requests_in_flight):
                tasks.create_task(self._send_requests(), name=f"requests {number}")

    async def close(self) -> None:
        """See `Cluster`."""
        await self._client.close()

    # Pods and nodes, as the watches report them.

    def _replace_pods(self, listed: ObjectList[PodObject]) -> None:
        there: set[RunId] = set()
        others: list[str] = []
        for pod in listed.objects:
            self._put_pod(pod)
        skipped = [PodObject(metadata) for metadata in listed.skipped]
        for pod in (*listed.objects, *skipped):
            run = pod_manifest.run_of_pod(pod, self._owner)
            if run is None:
                others.append(pod.metadata.uid)
            else:
                there.add(run)
        self._note_nodes(self._cluster_nodes.retain_pods(others))
        for run, record in list(self._records.items()):
            pod_ = record.observed
            if run in there or pod_ is None:
                continue
            if int(pod_.metadata.resource_version or 0) <= int(listed.version or 0):
                self._note_deletion(record, None)

    def _put_pod(self, pod: PodObject) -> None:
        run = pod_manifest.run_of_pod(pod, self._owner)
        if run is None:
            self._note_nodes(self._cluster_nodes.put_pod(pod))
            return
        record = self._records.get(run)
        if record is None:
            record = self._records[run] = RunRecord(run=run)
        if run_records.observe(record, pod):
            if pod.spec.node_name:
                self._cluster_nodes.note_absent(pod.spec.node_name, self._clock_ms())
            self._update(record)

    def _delete_pod(self, metadata: ObjectMeta, pod: PodObject | None) -> None:
        run = pod_manifest.run_of_pod(pod or PodObject(metadata), self._owner)
        if run is None:
            self._note_nodes(self._cluster_nodes.delete_pod(metadata.uid))
        elif run in self._records:
            self._note_deletion(self._records[run], pod)

    def _note_deletion(self, record: RunRecord, pod: PodObject | None) -> None:
        run_records.observe_deletion(record, pod, self._clock_ms())
        self._update(record)

    def _replace_nodes(self, listed: ObjectList[NodeObject]) -> None:
        skipped = [metadata.name for metadata in listed.skipped]
        changed = self._cluster_nodes.replace_all(listed.objects, skipped, self._clock_ms())
        self._note_nodes(changed)

    def _put_node(self, node: NodeObject) -> None:
        self._note_nodes(self._cluster_nodes.put(node, self._clock_ms()))

    def _delete_node(self, metadata: ObjectMeta, _: NodeObject | None) -> None:
        self._note_nodes(self._cluster_nodes.delete(metadata.name, self._clock_ms()))

    def _note_devices(self, nodes: set[str]) -> None:
        self._note_nodes(self._cluster_nodes.note_devices(nodes))

    def _is_own_pod(self, namespace: str, name: str) -> bool:
        record = self._records.get(RunId(name))
        return record is not None and record.namespace == namespace

    def _note_nodes(self, changed: bool) -> None:
        if changed:
            self._changed_event.set()

    # Records.

    def _update(self, record: RunRecord) -> None:
        """Show what changed of a run, and have its next operation done."""
        run = record.run
        pod = run_records.describe_run(record)
        if pod != record.reported:
            record.reported = pod
            if pod is None:
                self._pods.pop(run, None)
            else:
                self._pods[run] = pod
            self._changed[run] = None
            self._changed_event.set()
        is_terminating = record.released and record.observed is not None
        is_waiting = pod is not None and pod.live and (pod.stopping or pod.phase is Phase.CREATED)
        if is_terminating or is_waiting:
            self._unsettled[run] = None
        else:
            self._unsettled.pop(run, None)
        if record.removed and record.observed is None:
            del self._records[run]
        elif not record.in_progress and self._next_operation(record) is not None:
            record.in_progress = True
            self._due.put_nowait(run)

    def _next_operation(self, record: RunRecord) -> run_records.Operation | None:
        return run_records.next_operation(
            record, self._clock_ms(), self._settings.stuck_terminating_s
        )

    # Requests.

    async def _send_requests(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            run = await self._due.get()
            record = self._records.get(run)
            if record is None:
                continue
            succeeded = await self._send_request(record)
            if succeeded:
                record.failures = 0
                record.in_progress = False
                if self._records.get(run) is record:
                    self._update(record)
            else:
                record.failures += 1
                pause_s = retry_pause_s(record.failures, self._chance())
                loop.call_later(pause_s, self._due.put_nowait, run)

    async def _send_request(self, record: RunRecord) -> bool:
        """Do the next operation of a run; False if it is to be repeated."""
        operation = self._next_operation(record)
        if operation is None:
            return True
        try:
            return await self._requests.perform(record, operation)
        except ApiUnavailable as error:
            if not record.failures:
                _logger.warning(
                    "the request %s of %s is repeated: %s",
                    *(operation.name, record.run, error),
                    extra=run_fields(record.run),
                )
            return False

    # What becomes due without an event.

    async def _check_periodically(self) -> None:
        while True:
            self._check_pending_pods()
            self._check_lost_nodes()
            self._release_retained()
            await asyncio.sleep(CHECK_S)

    def _check_pending_pods(self) -> None:
        """Apply the rules for pods that do not start; delete by force what does not end."""
        now_ms = self._clock_ms()
        for run in list(self._unsettled):
            record = self._records[run]
            pod = record.observed
            if pod is None:
                continue
            if record.stop is None and record.ended is None:
                self._check_pending_pod(record, pod, now_ms)
            if record.stop is not None or pod.metadata.deletion_timestamp is not None:
                self._update(record)

    def _check_pending_pod(self, record: RunRecord, pod: PodObject, now_ms: int) -> None:
        waiting = pending_pods.find_waiting_reason(pod)
        if waiting is None:
            return
        if waiting.reason != record.waiting_reason:
            record.waiting_reason, record.waiting_since_ms = waiting.reason, now_ms
        rule = pending_pods.choose_rule(waiting, self._settings.pending_rules)
        if rule is None or now_ms - record.waiting_since_ms < 1000 * rule.after_s:
            return
        end = pending_pods.describe_end(waiting, rule)
        if end is not None:
            run_records.request_stop(record, run_records.GRACE_S_MIN, end)

    def _check_lost_nodes(self) -> None:
        lost_s = self._settings.node_lost_s
        lost = set(self._cluster_nodes.find_lost(self._clock_ms(), lost_s))
        if not lost:
            return
        used: set[str] = set()
        for record in list(self._records.values()):
            pod = record.observed
            if pod is None or record.ended is not None or pod.spec.node_name not in lost:
                continue
            used.add(pod.spec.node_name)
            if record.stop is not None and record.stop.by_force:
                continue
            text = f"the node {pod.spec.node_name} has been gone or not ready for {lost_s} s"
            if self._settings.lost_runs == "fail":
                end = pods.failed(FailureCategory.NODE_LOST, text)
            else:
                end = pods.lost(text)
            run_records.request_stop(record, run_records.GRACE_S_MIN, end, by_force=True)
            self._update(record)
        self._cluster_nodes.forget_absent(lost - used)

    def _release_retained(self) -> None:
        """Release the pods that exceed the number or the age for which they are retained."""
        oldest_ms = self._clock_ms() - 1000 * self._settings.ended_pods_s
        while self._retained and (
            len(self._retained) > self._settings.ended_pods_max or self._retained[0][0] <= oldest_ms
        ):
            _, run = self._retained.popleft()
            record = self._records.get(run)
            if record is not None:
                record.release_requested = True
                self._update(record)


def _selector(labels: Mapping[str, str]) -> dict[str, str]:
    if not labels:
        return {}
    return {"labelSelector": ",".join(f"{name}={value}" for name, value in labels.items())}
