"""The record of a job in the checkpoint: its columns packed into bytes of one length. Pure.

Postgres writes and reads rows of one length as one block in the binary format of COPY. So a million
jobs are a few blocks that numpy reads as columns; none of them becomes a Python object. Integers
are in network byte order, as in Postgres' own functions (`int8send`), with which migrations can
write records too. Names (pool, job set, shape, node) are numbers of `checkpoint_names.py`.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JOB_ID_LENGTH

FORMAT: Final = 1
"""The version of `RECORD`; saved with the positions. A migration that changes records sets the next
number."""

RECORD: Final = np.dtype(
    [
        ("state", ">i2"),
        ("run_state", ">i2"),
        ("flags", ">u2"),
        ("pool", ">i4"),
        ("job_set", ">i4"),
        ("shape", ">i4"),
        ("node", ">i4"),
        ("run", ">i4"),
        ("retries", ">i4"),
        ("grace_s", ">i4"),
        ("priority", ">i8"),
        ("number", ">i8"),
        ("submitted_ms", ">i8"),
        ("leased_ms", ">i8"),
        ("running_ms", ">i8"),
        ("value", ">i8"),
        ("start_after_ms", ">i8"),
        ("queue_until_ms", ">i8"),
        ("runtime_ms_max", ">i8"),
        ("checkpoint_ms", ">i8"),
        ("digest", "S32"),
    ]
)
"""`node` is -1 where the job has none."""

FIELDS: Final = tuple(RECORD.fields or ())
NAMES: Final = ("pool", "job_set", "shape", "node")
PLAIN: Final = tuple(name for name in FIELDS if name not in NAMES)
"""Fields that are saved as they are in the columns."""

_ID: Final = f"S{JOB_ID_LENGTH}"
_LENGTH: Final = ">i4"
_ROW: Final = [
    ("fields", ">i2"),
    ("id_length", _LENGTH),
    ("id", _ID),
    ("record_length", _LENGTH),
    ("record", RECORD),
]
_READ: Final = np.dtype(_ROW)
"""A row of `COPY (SELECT job_id, record ...)`."""
_WRITTEN: Final = np.dtype([*_ROW, ("rare_length", _LENGTH)])
"""A row of `COPY ... (job_id, record, rare)`; the rare properties follow."""
_NULL: Final = -1
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_HEADER: Final = _SIGNATURE + struct.pack(">ii", 0, 0)
_TRAILER: Final = struct.pack(">h", -1)

ENCODED_ROWS: Final = 1 << 15
"""Rows that are encoded at once."""
DECODED_ROWS: Final = 1 << 12
"""Rows that are decoded at once: less than the size from which memory is mapped for each array
(`heap.py` of the common library), which costs more than filling it."""

Keys = npt.NDArray[np.bytes_]
Records = npt.NDArray[np.void]


class UnreadableRecords(Exception):
    """The rows of the checkpoint are not as this version writes them."""


def encode_rows(
    keys: Keys, records: Records, rare: Mapping[int, bytes], rows_per_block: int = ENCODED_ROWS
) -> Iterator[bytes]:
    """Rows as COPY reads them in its binary format, in blocks: the whole would be as large again.

    `rare`: by place in `keys`, where there is any.
    """
    yield _HEADER
    places = np.array(sorted(rare), np.intp)
    for first in range(0, len(keys), rows_per_block):
        some = slice(first, first + rows_per_block)
        lower, upper = np.searchsorted(places, (some.start, some.stop)).tolist()
        with_rare = {place - first: rare[place] for place in places[lower:upper].tolist()}
        yield _encode_block(keys[some], records[some], with_rare)
    yield _TRAILER


def _encode_block(keys: Keys, records: Records, rare: Mapping[int, bytes]) -> bytes:
    """`rare`: by place in `keys`, ascending."""
    rows = np.zeros(len(keys), _WRITTEN)
    rows["fields"] = 3
    rows["id_length"] = JOB_ID_LENGTH
    rows["id"] = keys
    rows["record_length"] = RECORD.itemsize
    rows["record"] = records
    rows["rare_length"] = _NULL
    rows["rare_length"][list(rare)] = [len(encoded) for encoded in rare.values()]
    whole = memoryview(rows.tobytes())
    parts: list[bytes | memoryview] = []
    done = 0
    for place, encoded in rare.items():
        end = (place + 1) * _WRITTEN.itemsize
        parts += [whole[done:end], encoded]
        done = end
    return b"".join([*parts, whole[done:]])


class RowDecoder:
    """Decodes the output of `COPY (SELECT job_id, record ...) TO STDOUT`, in pieces of any size."""

    def __init__(self, rows_per_block: int = DECODED_ROWS) -> None:
        self._block_bytes = rows_per_block * _READ.itemsize
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._begun = False

    def feed(self, data: bytes) -> Iterator[npt.NDArray[np.void]]:
        """The blocks of rows that are complete now. Raises `UnreadableRecords`."""
        self._pieces.append(data)
        self._bytes += len(data)
        if self._bytes >= (self._block_bytes if self._begun else len(_HEADER)):
            whole = self._take()
            size = (len(whole) - len(_TRAILER)) // _READ.itemsize * _READ.itemsize
            if size > 0:
                yield _rows(whole[:size])
                whole = whole[size:]
            self._pieces, self._bytes = [bytes(whole)], len(whole)

    def finish(self) -> npt.NDArray[np.void]:
        """The last rows. Raises `UnreadableRecords`."""
        whole = self._take()
        if not self._begun or bytes(whole[-len(_TRAILER) :]) != _TRAILER:
            raise UnreadableRecords("the rows of the checkpoint end before their trailer")
        return _rows(whole[: -len(_TRAILER)])

    def _take(self) -> memoryview:
        """The bytes that arrived and are not decoded yet, without the header."""
        whole = memoryview(b"".join(self._pieces))
        if self._begun or len(whole) < len(_HEADER):
            return whole
        if bytes(whole[: len(_SIGNATURE)]) != _SIGNATURE:
            raise UnreadableRecords("Postgres did not answer in the binary format of COPY")
        self._begun = True
        return whole[len(_HEADER) :]


def _rows(data: memoryview) -> npt.NDArray[np.void]:
    whole, rest = divmod(len(data), _READ.itemsize)
    rows = np.frombuffer(data, _READ, whole)
    usual = (
        (rows["fields"] == 2)
        & (rows["id_length"] == JOB_ID_LENGTH)
        & (rows["record_length"] == RECORD.itemsize)
    )
    if rest or not usual.all():
        raise UnreadableRecords(
            f"a row of the checkpoint does not have the {RECORD.itemsize} bytes of format {FORMAT}"
        )
    return rows
