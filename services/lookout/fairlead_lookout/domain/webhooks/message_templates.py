"""Texts with named fields, as `{queue}/{jobSet} failed: {reason}`.

A template is data: fields are replaced by texts, and nothing in it is evaluated. Attributes,
indexes, conversions and format specifications are errors when a webhook is created.
"""

import string
from collections.abc import Callable, Mapping
from typing import Final

SUBJECT_CHARACTERS_MAX: Final = 200
TEXT_CHARACTERS_MAX: Final = 2_000
FIELDS_MAX: Final = 20
VALUE_CHARACTERS_MAX: Final = 300
"""Longer values are cut. Summaries and links are not: a part of a link leads nowhere."""
_UNCUT: Final = frozenset({"summary", "link"})
FIELDS: Final[Mapping[str, str]] = {
    "summary": "one sentence on the event, the default text",
    "type": "the type of the event",
    "time": "when it happened",
    "queue": "the queue",
    "jobSet": "the job set",
    "job": "the client id of the job, or its id",
    "jobId": "the id of the job",
    "group": "the group",
    "run": "the number of the run",
    "state": "the state of the job; FINISHED for a job set",
    "category": "the failure category",
    "exitCode": "the exit code",
    "reason": "the reason",
    "cluster": "the cluster of the run",
    "node": "the node of the run",
    "by": "who requested it",
    "counts": "the number of jobs by state, of finished",
    "link": "the address of the job or job set on the dashboard",
}
_parse: Final = string.Formatter().parse


def check_template(template: str, characters_max: int, *, lines: bool) -> str | None:
    """What is wrong with a template; None if it is valid. `lines`: whether it can have several."""
    if len(template) > characters_max:
        return f"has {len(template)} characters; at most {characters_max} are allowed"
    if not template.strip():
        return "is empty"
    printable = template.replace("\n", "").replace("\t", "") if lines else template
    if not printable.isprintable():
        return "contains characters that are not printable" + (
            "" if lines else ", or several lines"
        )
    try:
        parts = list(_parse(template))
    except ValueError:
        return "has a single { or }; write {{ or }} for the character itself"
    names = [part for part in parts if part[1] is not None]
    if len(names) > FIELDS_MAX:
        return f"has {len(names)} fields; at most {FIELDS_MAX} are allowed"
    for _, name, specification, conversion in names:
        if name not in FIELDS:
            known = ", ".join(FIELDS)
            return f"has the unknown field {{{str(name)[:50]}}}; known are {known}"
        if specification or conversion:
            return f"has a format in the field {{{name}}}; only its name is allowed"
    return None


def render(template: str, values: Mapping[str, str], escape: Callable[[str], str] = str) -> str:
    """The text, with values for the fields; a field without a value is empty. `escape` is applied
    to values, not to the template, which its owner wrote for the receiver."""
    made = []
    for literal, name, _, _ in _parse(template):
        made.append(literal)
        if name is not None:
            value = " ".join(values.get(name, "").split())
            if name not in _UNCUT and len(value) > VALUE_CHARACTERS_MAX:
                value = value[: VALUE_CHARACTERS_MAX - 1] + "…"
            made.append(escape(value))
    return "".join(made)
