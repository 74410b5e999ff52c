"""The fields of manifests, and the report that says what each becomes.

A converter takes the fields that it uses, ignores or refuses others with a reason, and ends with
`ManifestObject.ignore_others`, so that no field is dropped without an entry in the report.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import validation

UNKNOWN: Final = "has no meaning for Fairlead"
"""The reason for fields that no converter knows."""

FIELDS_MAX: Final = 500_000
"""Maximum number of reported fields of a request."""


class FieldUse(StrEnum):
    """What became of a field."""

    USED = "used"
    IGNORED = "ignored"
    REFUSED = "refused"


class ReportedField(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A field (`pointer` begins at the request), its use, and what it becomes or why not."""

    pointer: str
    use: FieldUse
    detail: str


class ReportFull(Exception):
    """The report has a limit of entries, and its `errors` say so: what follows is not converted."""


class FieldReport:
    """The entries of a request, in the order in which they were made."""

    def __init__(self) -> None:
        self.fields: list[ReportedField] = []
        self._refused = 0

    def add(self, pointer: str, use: FieldUse, detail: str) -> None:
        """Add an entry. Raises `ReportFull` after `ERRORS_MAX` refused fields or `FIELDS_MAX`."""
        self.fields.append(ReportedField(pointer, use, detail))
        if use is FieldUse.REFUSED:
            self._refused += 1
            if self._refused == validation.ERRORS_MAX:
                raise ReportFull
        elif len(self.fields) >= FIELDS_MAX:
            detail = f"have more than {FIELDS_MAX} fields; send them in several requests"
            self.fields.append(ReportedField("/manifests", FieldUse.REFUSED, detail))
            raise ReportFull

    def errors(self) -> list[FieldError]:
        """The refused fields as errors of the request."""
        return [
            FieldError(field.pointer, field.detail)
            for field in self.fields
            if field.use is FieldUse.REFUSED
        ]


class ManifestObject:
    """An object of a manifest. Each `take` method marks a field as used, and refuses a value of
    another type; an absent field and null are the same.
    """

    def __init__(self, value: Mapping[str, object], pointer: str, report: FieldReport) -> None:
        self.pointer: Final = pointer
        self._value = value
        self._report = report
        self._seen: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the field is given."""
        return self._value.get(name) is not None

    def peek(self, name: str) -> object:
        """The value of the field, which stays to be taken."""
        return self._value.get(name)

    def peek_text(self, name: str) -> str:
        """The text of the field, which stays to be taken; empty if it is not a text."""
        value = self._value.get(name)
        return value if isinstance(value, str) else ""

    def open_silently(self, name: str) -> "ManifestObject":
        """The object of the field, which stays to be taken; empty if it is not an object."""
        value = self._value.get(name)
        return ManifestObject(
            value if isinstance(value, dict) else {}, self._point(name), self._report
        )

    def take_text(self, name: str, becomes: str = "") -> str | None:
        """The text of the field. `becomes`: what it is converted to."""
        value = self._take(name)
        if value is None or isinstance(value, str):
            self._report_used(name, becomes)
            return value
        self.refuse_field(name, f"is {validation.quote(value)}; a text is expected")
        return None

    def take_count(self, name: str, becomes: str = "", *, least: int = 0) -> int | None:
        """The integer of the field, at least `least`."""
        value = self._take(name)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            self._report_used(name, becomes)
            return value
        self.refuse_field(
            name, f"is {validation.quote(value)}; an integer of at least {least} is expected"
        )
        return None

    def take_flag(self, name: str, becomes: str = "") -> bool:
        """The boolean of the field; absent means false."""
        value = self._take(name)
        if value is None or isinstance(value, bool):
            self._report_used(name, becomes)
            return bool(value)
        self.refuse_field(name, f"is {validation.quote(value)}; true or false is expected")
        return False

    def take_texts(self, name: str, becomes: str = "") -> dict[str, str]:
        """The object of the field, in which every value is a text."""
        value = self._take(name)
        if value is None:
            return {}
        if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
            self._report_used(name, becomes)
            return dict(value)
        self.refuse_field(name, "is not valid: an object of texts is expected")
        return {}

    def take_names(self, name: str, becomes: str = "") -> list[str]:
        """The list of texts of the field."""
        value = self._take(name)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            self._report_used(name, becomes)
            return list(value)
        self.refuse_field(name, "is not valid: a list of texts is expected")
        return []

    def take_whole(self, name: str, becomes: str = "") -> dict[str, object] | None:
        """The object of the field as it is, not examined further."""
        value = self._take(name)
        if value is None:
            return None
        if isinstance(value, dict):
            self._report_used(name, becomes)
            return dict(value)
        self.refuse_field(name, f"is {validation.quote(value)}; an object is expected")
        return None

    def take_objects(self, name: str, becomes: str = "") -> list[dict[str, object]]:
        """The list of objects of the field as it is, not examined further."""
        value = self._take(name)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            self._report_used(name, becomes)
            return list(value)
        self.refuse_field(name, "is not valid: a list of objects is expected")
        return []

    def names(self) -> list[str]:
        """The names of the given fields."""
        return [name for name in self._value if self.has(name)]

    def open(self, name: str) -> "ManifestObject":
        """The object of the field, whose own fields are reported; empty if it is absent."""
        value = self._take(name)
        pointer = self._point(name)
        if value is not None and not isinstance(value, dict):
            self.refuse_field(name, f"is {validation.quote(value)}; an object is expected")
        return ManifestObject(value if isinstance(value, dict) else {}, pointer, self._report)

    def open_list(self, name: str) -> list["ManifestObject"]:
        """The objects of the list in the field, whose own fields are reported."""
        value = self._take(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.refuse_field(name, "is not valid: a list of objects is expected")
            return []
        pointer = self._point(name)
        return [
            ManifestObject(item, f"{pointer}/{index}", self._report)
            for index, item in enumerate(value)
        ]

    def ignore_field(self, name: str, why: str) -> None:
        """Report the field, if it is given, as ignored."""
        if self._take(name) is not None:
            self._report.add(self._point(name), FieldUse.IGNORED, why)

    def refuse_field(self, name: str, why: str) -> None:
        """Report the field as refused: the manifest cannot be converted."""
        self._seen.add(name)
        self._report.add(self._point(name), FieldUse.REFUSED, why)

    def ignore_others(self, reasons: Mapping[str, str], *, silent: Sequence[str] = ()) -> None:
        """Report every field that was not reported yet as ignored, for the reason given.

        `silent`: fields that the cluster writes, which are not reported.
        """
        self._seen.update(silent)
        for name in self._value:
            if name not in self._seen:
                self.ignore_field(name, reasons.get(name, UNKNOWN))

    def _take(self, name: str) -> object:
        self._seen.add(name)
        return self._value.get(name)

    def _report_used(self, name: str, becomes: str) -> None:
        if self.has(name):
            self._report.add(self._point(name), FieldUse.USED, becomes)

    def _point(self, name: str) -> str:
        return f"{self.pointer}/{validation.escape_pointer(name)}"
