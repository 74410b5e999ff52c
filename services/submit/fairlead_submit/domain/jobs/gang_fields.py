"""The gang of a job, from its field `gang` or from annotations of Armada.

`armadaproject.io/gangId`, `gangCardinality`, `gangMinimumCardinality` and `gangNodeUniformityLabel`
mean the same as the fields of `gang`. A job can have both if they agree.
"""

from typing import Final

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import validation
from fairlead_submit.domain.request_types import Gang, Job

PREFIX: Final = "armadaproject.io/"
_NAME: Final = f"{PREFIX}gangId"
_SIZE: Final = f"{PREFIX}gangCardinality"
_MIN_SIZE: Final = f"{PREFIX}gangMinimumCardinality"
_LABEL: Final = f"{PREFIX}gangNodeUniformityLabel"
_FIELDS: Final = {"name": _NAME, "size": _SIZE, "min_size": _MIN_SIZE, "uniformity_label": _LABEL}
_WORDS: Final = frozenset(_FIELDS.values())


def read_gang(job: Job, found: list[FieldError]) -> Gang | None:
    """The gang of the job, from its field or its annotations."""
    annotations = job.annotations
    if not annotations or _WORDS.isdisjoint(annotations):
        return job.gang
    if _NAME not in annotations or _SIZE not in annotations:
        missing = _SIZE if _NAME in annotations else _NAME
        found.append(
            FieldError(
                _annotation_pointer(missing), "is missing; the other gang annotations require it"
            )
        )
        return job.gang
    annotated = Gang(
        name=annotations[_NAME],
        size=_read_count(annotations, _SIZE, found),
        min_size=_read_count(annotations, _MIN_SIZE, found),
        uniformity_label=annotations.get(_LABEL),
    )
    if not annotated.name:
        found.append(FieldError(_annotation_pointer(_NAME), "is empty"))
    if job.gang is None:
        return annotated
    for field, word in _FIELDS.items():
        own, other = getattr(job.gang, field), getattr(annotated, field)
        if word in annotations and own is not None and own != other:
            detail = f"is {validation.quote(annotations[word])}, but the field `gang` has {own!r}"
            found.append(FieldError(_annotation_pointer(word), detail))
    return job.gang


def _read_count(annotations: dict[str, str], word: str, found: list[FieldError]) -> int | None:
    text = annotations.get(word)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0:
        return int(text)
    detail = f"is {validation.quote(text)}; an integer of at least 1 is expected"
    found.append(FieldError(_annotation_pointer(word), detail))
    return None


def _annotation_pointer(word: str) -> str:
    return f"/annotations/{validation.escape_pointer(word)}"
