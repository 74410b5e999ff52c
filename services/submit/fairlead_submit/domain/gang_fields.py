"""Annotations of Armada that are understood as fields of a job. Pure.

`armadaproject.io/gangId`, `gangCardinality`, `gangMinimumCardinality` and `gangNodeUniformityLabel`
say what `gang` says. A job may say it in both ways if it says the same.
"""

from typing import Final

from fairlead_common.domain.errors import FieldError
from fairlead_submit.domain import validation
from fairlead_submit.domain.request_types import Gang, Job

PREFIX: Final = "armadaproject.io/"
_NAME: Final = f"{PREFIX}gangId"
_SIZE: Final = f"{PREFIX}gangCardinality"
_MIN_SIZE: Final = f"{PREFIX}gangMinimumCardinality"
_LABEL: Final = f"{PREFIX}gangNodeUniformityLabel"
_FIELDS: Final = {"name": _NAME, "size": _SIZE, "min_size": _MIN_SIZE, "uniformity_label": _LABEL}
_WORDS: Final = frozenset(_FIELDS.values())


def gang(job: Job, found: list[FieldError]) -> Gang | None:
    """The job's gang, whichever way it says so."""
    annotations = job.annotations
    if not annotations or _WORDS.isdisjoint(annotations):
        return job.gang
    if _NAME not in annotations or _SIZE not in annotations:
        missing = _SIZE if _NAME in annotations else _NAME
        found.append(
            FieldError(_at(missing), "is missing: the other annotations of a gang need it")
        )
        return job.gang
    said = Gang(
        name=annotations[_NAME],
        size=_count(annotations, _SIZE, found),
        min_size=_count(annotations, _MIN_SIZE, found),
        uniformity_label=annotations.get(_LABEL),
    )
    if not said.name:
        found.append(FieldError(_at(_NAME), "is empty"))
    if job.gang is None:
        return said
    for field, word in _FIELDS.items():
        own, other = getattr(job.gang, field), getattr(said, field)
        if word in annotations and own is not None and own != other:
            detail = f"is {validation.shown(annotations[word])}, but the job's gang says {own!r}"
            found.append(FieldError(_at(word), detail))
    return job.gang


def _count(annotations: dict[str, str], word: str, found: list[FieldError]) -> int | None:
    text = annotations.get(word)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0:
        return int(text)
    detail = f"is {validation.shown(text)}; a whole number from 1 on is expected"
    found.append(FieldError(_at(word), detail))
    return None


def _at(word: str) -> str:
    return f"/annotations/{validation.escape(word)}"
