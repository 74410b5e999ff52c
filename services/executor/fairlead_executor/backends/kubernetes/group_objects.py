"""Keeps the ConfigMap and the headless service of each group as they are wanted.

They are changed one after another by `run`. What cannot be done now is tried again later; a service
that belongs to somebody else fails the runs of the group.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead_common.domain.ids import GroupId, RunId
from fairlead_executor.backends.kubernetes.api_client import (
    MERGE_PATCH,
    ApiClient,
    ApiUnavailable,
    Response,
)
from fairlead_executor.backends.kubernetes.domain import api_objects, group_manifests
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject
from fairlead_executor.backends.kubernetes.domain.group_manifests import Json
from fairlead_executor.backends.kubernetes.domain.pod_manifest import Owner
from fairlead_executor.backends.kubernetes.watches import retry_pause_s
from fairlead_executor.domain.cluster_protocol import GroupFile

_logger = logging.getLogger("fairlead.executor")


class GroupObjects:
    """The objects of all groups of one executor.

    `find_pods`: the pods of these runs in a namespace, as far as they exist. `fail`: ends the runs
    of a group with this reason.
    """

    def __init__(
        self,
        client: ApiClient,
        owner: Owner,
        find_pods: Callable[[Sequence[RunId], str], list[PodObject]],
        fail: Callable[[GroupFile, str], None],
        chance: Callable[[], float],
    ) -> None:
        self._client = client
        self._owner = owner
        self._find_pods = find_pods
        self._fail = fail
        self._chance = chance
        self._wanted: dict[_Place, GroupFile] = {}
        self._existing: dict[_Place, GroupFile] = {}
        """What was created or changed last, until it is deleted."""
        self._due: asyncio.Queue[_Place] = asyncio.Queue()
        self._queued: set[_Place] = set()
        self._failures: dict[_Place, int] = {}

    def write(self, group: GroupFile) -> None:
        """Have the objects of the group created or changed in all its namespaces."""
        for namespace in group.namespaces:
            place = _Place(namespace, group.group)
            self._wanted[place] = group
            self._put(place)

    def retain(self, groups: Collection[GroupId]) -> None:
        """Have the objects of other groups deleted."""
        for place in [*self._wanted, *self._existing]:
            if place.group not in groups:
                self._wanted.pop(place, None)
                self._put(place)

    async def run(self) -> None:
        """Change what is due, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            place = await self._due.get()
            self._queued.discard(place)
            if await self._settle(place):
                self._failures.pop(place, None)
                continue
            failures = self._failures[place] = self._failures.get(place, 0) + 1
            loop.call_later(retry_pause_s(failures, self._chance()), self._put, place)

    def _put(self, place: "_Place") -> None:
        if place not in self._queued:
            self._queued.add(place)
            self._due.put_nowait(place)

    async def _settle(self, place: "_Place") -> bool:
        """Bring the objects of a group in a namespace to what is wanted; whether they are so."""
        group = self._wanted.get(place)
        try:
            if group is None:
                return await self._delete(place)
            self._existing[place] = group
            return await self._write_config_map(place, group) and (
                not group.service or await self._write_service(place, group)
            )
        except ApiUnavailable as error:
            if place not in self._failures:
                _logger.warning("the objects of group %s are written later: %s", place.group, error)
            return False

    async def _write_config_map(self, place: "_Place", group: GroupFile) -> bool:
        owners = group_manifests.list_owners(self._find_pods(group.runs, place.namespace))
        body = group_manifests.build_config_map(group, place.namespace, self._owner.labels, owners)
        path = _collection(place, "configmaps")
        response = await self._client.request("POST", path, body)
        if _exists(response):
            path = f"{path}/{group_manifests.name_config_map(place.group)}"
            response = await self._patch(path, body)
        return self._is_done(place, response, "ConfigMap")

    async def _write_service(self, place: "_Place", group: GroupFile) -> bool:
        owners = group_manifests.list_owners(self._find_pods(group.runs, place.namespace))
        body = group_manifests.build_service(group, place.namespace, self._owner.labels, owners)
        path = _collection(place, "services")
        response = await self._client.request("POST", path, body)
        if not _exists(response):
            return self._is_done(place, response, "headless service")
        path = f"{path}/{group.name}"
        found = await self._client.request("GET", path)
        if found.code == 200 and not _has_labels(found, body["metadata"]["labels"]):
            text = f"a service {group.name} that is not of this group exists in {place.namespace}"
            self._fail(group, f"{text}; name the group otherwise")
            return True
        owned = {"metadata": {"ownerReferences": owners}}
        return self._is_done(place, await self._patch(path, owned), "headless service")

    async def _patch(self, path: str, body: Json) -> Response:
        return await self._client.request("PATCH", path, body, content_type=MERGE_PATCH)

    async def _delete(self, place: "_Place") -> bool:
        group = self._existing.get(place)
        if group is None:
            return True
        paths = [
            f"{_collection(place, 'configmaps')}/{group_manifests.name_config_map(place.group)}"
        ]
        service = f"{_collection(place, 'services')}/{group.name}"
        if group.service:
            found = await self._client.request("GET", service)
            labels = {**self._owner.labels, group_manifests.GROUP: place.group}
            if found.code == 200 and _has_labels(found, labels):
                paths.append(service)
        for path in paths:
            response = await self._client.request("DELETE", path)
            if response.code not in (200, 202, 404):
                return self._is_done(place, response, "object")
        self._existing.pop(place, None)
        return True

    def _is_done(self, place: "_Place", response: Response, what: str) -> bool:
        """Whether the request succeeded. A refusal is tried again too: rights can be given."""
        if response.code in (200, 201):
            return True
        if place not in self._failures:
            message = api_objects.decode_status(response.body).message
            _logger.warning(
                "the %s of group %s in namespace %s cannot be changed now: %s",
                *(what, place.group, place.namespace, message),
            )
        return False


class _Place(NamedTuple):
    """Where a group has objects."""

    namespace: str
    group: GroupId


class _Labelled(msgspec.Struct, frozen=True):
    metadata: api_objects.ObjectMeta


def _collection(place: _Place, kind: str) -> str:
    return f"/api/v1/namespaces/{place.namespace}/{kind}"


def _exists(response: Response) -> bool:
    if response.code != 409:
        return False
    return api_objects.decode_status(response.body).reason == "AlreadyExists"


_decoder: Final = msgspec.json.Decoder(_Labelled)


def _has_labels(response: Response, labels: dict[str, str]) -> bool:
    """Whether the object in the answer has these labels."""
    try:
        found = _decoder.decode(response.body).metadata.labels
    except msgspec.DecodeError as error:
        raise ApiUnavailable(f"a service cannot be decoded: {error}") from error
    return all(found.get(name) == value for name, value in labels.items())
