"""Sends the requests that bring the pod of a run to what is wanted of it."""

from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.secret_values import Keyring
from fairlead_executor.backends.kubernetes.api_client import (
    MERGE_PATCH,
    ApiClient,
    ApiUnavailable,
    Response,
)
from fairlead_executor.backends.kubernetes.domain import (
    api_objects,
    pod_manifest,
    refusals,
    run_records,
)
from fairlead_executor.backends.kubernetes.domain.pod_manifest import FINALIZER, Owner
from fairlead_executor.backends.kubernetes.domain.refusals import Outcome
from fairlead_executor.backends.kubernetes.domain.run_records import Operation, RunRecord
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End


class Requests:
    """One method per operation. Each returns whether it succeeded, else it is to be repeated.

    They change the record; only one of a record is in progress at a time. All raise
    `ApiUnavailable`.
    """

    def __init__(
        self,
        client: ApiClient,
        owner: Owner,
        settings: KubernetesSettings,
        keyring: Keyring,
        clock_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._owner = owner
        self._settings = settings
        self._keyring = keyring
        self._clock_ms = clock_ms

    async def perform(self, record: RunRecord, operation: Operation) -> bool:
        """Do it; whether it succeeded."""
        match operation:
            case Operation.CREATE:
                return await self._create(record)
            case Operation.CREATE_SECRET:
                return await self._create_secret(record)
            case Operation.CREATE_NETWORK_OBJECTS:
                return await self._create_network_objects(record)
            case Operation.CREATE_PLACEHOLDER:
                return await self._create_placeholder(record)
            case Operation.RECORD_END:
                return await self._record_end(record)
            case Operation.DELETE:
                assert record.stop is not None, record.run
                return await self._delete(record, record.stop.grace_s)
            case Operation.DELETE_BY_FORCE:
                return await self._delete(record, 0)
            case Operation.RELEASE:
                return await self._release(record)
            case _:
                assert_never(operation)

    async def _create(self, record: RunRecord) -> bool:
        lease = record.lease
        assert lease is not None, record.run
        try:
            manifest = pod_manifest.build_pod(lease, self._owner, self._settings, self._keyring)
        except pod_manifest.Refused as error:
            end = pods.failed(FailureCategory.ADMISSION, str(error))
            run_records.refuse(record, end, self._clock_ms())
            return True
        record.secrets = dict(manifest.secrets)
        return await self._post_pod(record, manifest.pod)

    def restore_secrets(self, record: RunRecord, lease: Lease) -> None:
        """Have the Secret of a pod created again that a former executor has created.

        That executor can have been killed before it created the Secret. Raises `Refused`.
        """
        if record.observed is not None and record.ended is None:
            manifest = pod_manifest.build_pod(lease, self._owner, self._settings, self._keyring)
            record.secrets = dict(manifest.secrets)

    async def _create_placeholder(self, record: RunRecord) -> bool:
        end = run_records.find_prevented_end(record)
        assert end is not None, record.run
        record.secrets = {}
        pod = pod_manifest.build_placeholder_pod(record.run, record.namespace, self._owner, end)
        return await self._post_pod(record, pod)

    async def _post_pod(self, record: RunRecord, pod: pod_manifest.Json) -> bool:
        response = await self._client.request("POST", _pods_path(record), pod)
        if response.code == 201:
            return self._observe(record, response)
        refusal = refusals.read_refusal(response.code, api_objects.decode_status(response.body))
        match refusal.outcome:
            case Outcome.REPEAT:
                return False
            case Outcome.EXISTS:
                return await self._read_pod(record)
            case Outcome.NO_NAMESPACE:
                return await self._handle_missing_namespace(record)
            case Outcome.ENDED:
                assert refusal.end is not None
                if record.failures:
                    return await self._refuse_unless_created(record, refusal.end)
                return self._refuse(record, refusal.end)
            case _:
                assert_never(refusal.outcome)

    def _refuse(self, record: RunRecord, end: End) -> bool:
        """The run never starts. A prevented run keeps its end: a former executor is refused too."""
        run_records.refuse(record, run_records.find_prevented_end(record) or end, self._clock_ms())
        return True

    async def _refuse_unless_created(self, record: RunRecord, end: End) -> bool:
        """A former request can have created the pod, which then itself uses up the quota."""
        response = await self._client.request("GET", _pod_path(record))
        if response.code == 404:
            return self._refuse(record, end)
        return self._note_existing_pod(record, response)

    async def _handle_missing_namespace(self, record: RunRecord) -> bool:
        name = record.namespace
        if self._settings.namespaces == "require":
            text = f"the namespace {name} does not exist in this cluster"
            return self._refuse(record, pods.failed(FailureCategory.ADMISSION, text))
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        response = await self._client.request("POST", "/api/v1/namespaces", body)
        if response.code not in (201, 409) and not refusals.is_repeated(response.code):
            message = api_objects.decode_status(response.body).message
            text = f"the namespace {name} cannot be created: {message}"
            return self._refuse(record, pods.failed(FailureCategory.ADMISSION, text))
        return response.code in (201, 409)

    async def _read_pod(self, record: RunRecord) -> bool:
        """Read the pod that already has the name of the run."""
        return self._note_existing_pod(record, await self._client.request("GET", _pod_path(record)))

    def _note_existing_pod(self, record: RunRecord, response: Response) -> bool:
        if response.code != 200:
            return False
        try:
            pod = api_objects.pod_decoder.decode(response.body)
        except msgspec.DecodeError as error:
            raise ApiUnavailable(f"the pod {record.run} cannot be decoded: {error}") from error
        if pod_manifest.run_of_pod(pod, self._owner) == record.run:
            run_records.observe(record, pod)
            return True
        text = "a pod of this name exists that does not belong to this executor"
        return self._refuse(record, pods.failed(FailureCategory.ADMISSION, text))

    async def _create_secret(self, record: RunRecord) -> bool:
        pod = record.observed
        assert pod is not None, record.run
        body = pod_manifest.build_secret(pod, self._owner, record.secrets)
        path = f"/api/v1/namespaces/{record.namespace}/secrets"
        response = await self._client.request("POST", path, body)
        exists = response.code == 409
        if response.code != 201 and not exists and refusals.is_repeated(response.code):
            return False
        record.secrets = {}
        if response.code != 201 and not exists:
            message = api_objects.decode_status(response.body).message
            text = f"its secret values cannot be stored in the cluster: {message}"
            end = pods.failed(FailureCategory.START, text)
            run_records.request_stop(record, run_records.GRACE_S_MIN, end)
        return True

    async def _create_network_objects(self, record: RunRecord) -> bool:
        """Create services and ingresses; those that exist are of an executor before this one."""
        pod = record.observed
        assert pod is not None, record.run
        try:
            creations = pod_manifest.build_network_objects(pod, self._owner)
        except msgspec.DecodeError as error:
            return self._fail_network_objects(record, f"its services cannot be read: {error}")
        for creation in creations:
            response = await self._client.request("POST", creation.path, creation.body)
            if response.code == 201:
                continue
            status = api_objects.decode_status(response.body)
            if response.code == 409 and status.reason == "AlreadyExists":
                continue
            if refusals.is_repeated(response.code):
                return False
            text = f"its {creation.kind} {creation.name} cannot be created: {status.message}"
            return self._fail_network_objects(record, text[: refusals.MESSAGE_LENGTH_MAX])
        record.has_network_objects = False
        return True

    def _fail_network_objects(self, record: RunRecord, text: str) -> bool:
        record.has_network_objects = False
        end = pods.failed(FailureCategory.ADMISSION, text)
        run_records.request_stop(record, run_records.GRACE_S_MIN, end)
        return True

    async def _record_end(self, record: RunRecord) -> bool:
        """Record on the pod how it ends, before it is deleted, for an executor after this one."""
        assert record.stop is not None, record.run
        text = pod_manifest.encode_end(record.stop.end)
        body = {"metadata": {"annotations": {pod_manifest.RUN_ENDS_AS: text}}}
        return await self._patch(record, body)

    async def _delete(self, record: RunRecord, grace_s: int) -> bool:
        assert record.observed is not None, record.run
        body: dict[str, Any] = {  # `Any`: JSON
            "gracePeriodSeconds": grace_s,
            "preconditions": {"uid": record.observed.metadata.uid},
        }
        response = await self._client.request("DELETE", _pod_path(record), body)
        if response.code == 404:
            run_records.observe_deletion(record, None, self._clock_ms())
            return True
        if response.code not in (200, 202):
            return False
        before = record.deleted_grace_s
        record.deleted_grace_s = grace_s if before is None else min(before, grace_s)
        return self._observe(record, response)

    async def _release(self, record: RunRecord) -> bool:
        """Delete the pod if nobody has, then remove our finalizer, with which it disappears.

        The API server deletes a pod without finalizers in two writes, which a failure can part.
        With the finalizer the first is the answer to DELETE and the second that to the patch.
        """
        pod = record.observed
        assert pod is not None, record.run
        is_held = FINALIZER in pod.metadata.finalizers
        is_deleted = is_held and pod.metadata.deletion_timestamp is not None
        if not is_deleted and not await self._delete(record, 0):
            return False
        record.released = not is_held or await self._remove_finalizer(record)
        return record.released

    async def _remove_finalizer(self, record: RunRecord) -> bool:
        pod = record.observed
        if pod is None:
            return True
        metadata = pod.metadata
        others = [name for name in metadata.finalizers if name != FINALIZER]
        # With finalizers of others the patch is refused if one was added in the meantime.
        version = {"resourceVersion": metadata.resource_version} if others else {}
        body = {"metadata": {"uid": metadata.uid, "finalizers": others or None, **version}}
        return await self._patch(record, body)

    async def _patch(self, record: RunRecord, body: pod_manifest.Json) -> bool:
        response = await self._client.request(
            "PATCH", _pod_path(record), body, content_type=MERGE_PATCH
        )
        if response.code == 404:
            run_records.observe_deletion(record, None, self._clock_ms())
            return True
        return response.code == 200 and self._observe(record, response)

    def _observe(self, record: RunRecord, response: Response) -> bool:
        """Note the pod in an answer. Some deletions are answered with a status instead."""
        try:
            pod = api_objects.pod_decoder.decode(response.body)
        except msgspec.ValidationError:
            return True
        if pod.metadata.name == record.run:
            run_records.observe(record, pod)
        return True


def _pods_path(record: RunRecord) -> str:
    return f"/api/v1/namespaces/{record.namespace}/pods"


def _pod_path(record: RunRecord) -> str:
    return f"{_pods_path(record)}/{record.run}"
