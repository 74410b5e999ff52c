"""The membership of a task in its array, as events contain it."""

import msgspec

from fairlead_common.domain.ids import ArrayId
from fairlead_common.domain.records.value_ranges import Int32, Int64


class ArrayTask(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The array of a job and its index there, below `count`. `number`: its submission number."""

    array: ArrayId
    index: Int32
    count: Int32
    number: Int64
