"""Follows all objects of one kind: a list by pages, then a watch with bookmarks.

The API server ends watches regularly, and those of slow readers at any time. A watch then continues
from the last version that was read; if that version is not retained any more (410), everything is
listed again. An object that cannot be decoded is skipped, counted, and named once in the log.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic

import msgspec

from fairlead_executor.backends.kubernetes.api_client import ApiClient, ApiRefused, ApiUnavailable
from fairlead_executor.backends.kubernetes.domain.api_objects import (
    ListPage,
    ObjectMeta,
    Status,
    T,
    event_decoder,
    metadata_decoder,
    page_decoder,
)
from fairlead_executor.service import metrics

PAGE_OBJECTS: Final = 500
WATCH_S: Final = 300
"""The API server is asked to end each watch after this time."""
SILENCE_S_MAX: Final = 90.0
"""A watch without events or bookmarks, which come about once a minute, is started again."""
RETRY_S_MIN: Final = 0.1
RETRY_S_MAX: Final = 20.0
EVENTS_PER_TURN: Final = 200
"""After this many events other tasks get their turn."""
SKIPPED_NAMES_MAX: Final = 1_000
"""The number of skipped objects that are remembered as named in the log."""

_logger = logging.getLogger("fairlead.executor")


class ObjectList(msgspec.Struct, Generic[T], frozen=True):
    """All objects that exist at this version; `skipped`: those that cannot be decoded."""

    objects: Sequence[T]
    version: str
    skipped: Sequence[ObjectMeta] = ()


class Receiver(msgspec.Struct, Generic[T], frozen=True):
    """What receives the objects.

    `replace_all`: these are all objects that exist. `put`: an object was added or changed.
    `delete`: an object does not exist any more; its last version, None if it cannot be decoded.
    """

    replace_all: Callable[[ObjectList[T]], None]
    put: Callable[[T], None]
    delete: Callable[[ObjectMeta, T | None], None]


class _Expired(Exception):
    """The version to continue from is not retained any more."""


class ObjectWatch(Generic[T]):
    """All objects below `path`. `chance` returns a number from 0 to 1, which spreads retries."""

    def __init__(
        self,
        client: ApiClient,
        path: str,
        decoder: msgspec.json.Decoder[T],
        receiver: Receiver[T],
        chance: Callable[[], float],
        selector: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._decoder = decoder
        self._receiver = receiver
        self._chance = chance
        self._parameters = selector or {}
        self._version = ""
        self._skipped: dict[str, None] = {}
        self.lists = 0
        """How often everything was listed."""
        self.problem: str | None = None
        """Why the objects cannot be read now; None: they can."""

    async def list_all(self) -> None:
        """Read everything. Raises `ApiRefused`, `ApiUnavailable`."""
        while True:
            try:
                listed = await self._list_pages()
                break
            except _Expired:
                continue  # between two pages; the next list begins with a newer version
        self._version = listed.version
        self.lists += 1
        self.problem = None
        self._receiver.replace_all(listed)

    async def _list_pages(self) -> ObjectList[T]:
        objects: list[T] = []
        skipped: list[ObjectMeta] = []
        parameters = {**self._parameters, "limit": str(PAGE_OBJECTS)}
        while True:
            try:
                body = await self._client.get(self._path, parameters)
            except ApiRefused as error:
                if error.code == 410 and "continue" in parameters:
                    raise _Expired from error
                raise
            page = self._decode_page(body)
            for item in page.items:
                decoded = self._decode(item)
                if decoded is None:
                    skipped.append(decode_metadata(item))
                else:
                    objects.append(decoded)
            if not page.metadata.continue_:
                return ObjectList(objects, page.metadata.resource_version, skipped)
            parameters["continue"] = page.metadata.continue_
            await asyncio.sleep(0)

    def _decode_page(self, body: bytes) -> ListPage:
        try:
            return page_decoder.decode(body)
        except msgspec.DecodeError as error:
            text = f"the answer to a list of {self._path} cannot be decoded: {error}"
            raise ApiUnavailable(text) from error

    def _decode(self, item: msgspec.Raw) -> T | None:
        """The object; None if it cannot be decoded."""
        try:
            return self._decoder.decode(item)
        except msgspec.DecodeError as error:
            metrics.OBJECTS_SKIPPED.labels(self._path.rpartition("/")[2]).inc()
            metadata = decode_metadata(item)
            name = f"{metadata.namespace}/{metadata.name}".removeprefix("/")
            if name not in self._skipped:
                if len(self._skipped) >= SKIPPED_NAMES_MAX:
                    del self._skipped[next(iter(self._skipped))]
                self._skipped[name] = None
                _logger.error("an object of %s is skipped: %s: %s", self._path, name, error)
            return None

    async def run(self) -> None:
        """Follow all changes, until cancelled."""
        failures = 0
        while True:
            before = self._version
            try:
                if not self._version:
                    await self.list_all()
                await self._watch()
                failures = 0
            except _Expired:
                _logger.info("the watch of %s fell too far behind; listing again", self._path)
                self._version = ""
            except (ApiUnavailable, ApiRefused) as error:
                failures = 0 if self._version not in ("", before) else failures + 1
                self.problem = str(error)
                _logger.warning("the watch of %s was interrupted: %s", self._path, error)
            if failures or self._version == before:
                await asyncio.sleep(retry_pause_s(max(1, failures), self._chance()))

    async def _watch(self) -> None:
        """Return when the API server ends the watch in order."""
        parameters = {
            **self._parameters,
            "watch": "1",
            "allowWatchBookmarks": "1",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_S),
        }
        try:
            async with self._client.stream(self._path, parameters, SILENCE_S_MAX) as lines:
                self.problem = None
                count = 0
                async for line in lines:
                    self._apply(line)
                    count += 1
                    if count % EVENTS_PER_TURN == 0:
                        await asyncio.sleep(0)
        except ApiRefused as error:
            if error.code == 410:
                raise _Expired from error
            raise

    def _apply(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            event = event_decoder.decode(line)
            if event.type == "ERROR":
                status = msgspec.json.decode(event.object, type=Status)
                if status.code == 410:
                    raise _Expired
                raise ApiRefused(status.code, status.message)
        except msgspec.DecodeError as error:
            # The connection was cut in the middle of a line.
            raise ApiUnavailable(f"a line of the watch of {self._path} is cut: {error}") from error
        item = None if event.type == "BOOKMARK" else self._decode(event.object)
        metadata = decode_metadata(event.object) if item is None else item.metadata
        if event.type == "DELETED":
            self._receiver.delete(metadata, item)
        elif item is not None:
            self._receiver.put(item)
        self._version = metadata.resource_version or self._version


def decode_metadata(item: msgspec.Raw) -> ObjectMeta:
    """The metadata of an object; empty if not even they can be decoded."""
    try:
        return metadata_decoder.decode(item).metadata
    except msgspec.DecodeError:
        return ObjectMeta()


def retry_pause_s(failures: int, chance: float) -> float:
    """The pause before the next try: doubled each time, spread over half of itself."""
    longest_s = min(RETRY_S_MAX, RETRY_S_MIN * 2.0 ** min(failures - 1, 20))
    return longest_s * (0.5 + 0.5 * chance)
