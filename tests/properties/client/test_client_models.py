"""Whatever the API's document says of an answer, the client reads all of it.

The client's structs are written by hand, because they are tolerant where the document is strict: a
field that an older server does not send has a default, and a state that this version does not
know is text. Here answers are made from the schemas of docs/openapi.json.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.models import (
    cluster_models,
    job_models,
    report_models,
    secret_models,
    token_models,
)

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "openapi.json"
SCHEMAS: Final[Mapping[str, Any]] = msgspec.json.decode(DOCUMENT.read_bytes())["components"][
    "schemas"
]

MODELS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "ActionResult": job_models.ActionResult,
    "ClusterResponse": cluster_models.Cluster,
    "FairnessResponse": report_models.Fairness,
    "JobMatch": job_models.JobMatch,
    "JobCountResponse": job_models.Group,
    "JobCountsResponse": job_models.Groups,
    "JobDetailResponse": job_models.JobDetail,
    "JobResponse": job_models.JobView,
    "JobSetResponse": job_models.JobSet,
    "NodeResponse": cluster_models.Node,
    "PoolReportResponse": report_models.PoolReport,
    "PriorityClasses": cluster_models.PriorityClasses,
    "Problem": job_models.Problem,
    "Progress": job_models.Action,
    "PublicEvent": job_models.Event,
    "QuarantineRecord": cluster_models.QuarantineRecord,
    "QueueReportResponse": report_models.QueueReport,
    "QueueView": job_models.Queue,
    "RefusedJob": job_models.RefusedJob,
    "RoundsResponse": report_models.Rounds,
    "RunResponse": job_models.Run,
    "SecretView": secret_models.Secret,
    "SignInLink": token_models.SignInLink,
    "ResubmissionResponse": job_models.StartedAction,
    "SubmissionResponse": job_models.ValidationResult,
    "SubmittedJob": job_models.JobValidation,
    "TokenView": token_models.Token,
    "UsageResponse": report_models.Usage,
    "WaitingReasonResponse": job_models.WaitingReason,
}
"""The schema of the document, and the client's struct."""

LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    "JobCountsResponse": frozenset({"total"}),
    "PublicEvent": frozenset({"final"}),
    "SubmissionResponse": frozenset(
        {"position"}
    ),  # a dry run, whose answer is read as `Checked`, has none
}
"""Fields that the client does not show."""


def values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:  # JSON of any shape
    """JSON values of a schema. Limits are left out: the client is to read more than is sent."""
    match schema:
        case {"$ref": str(reference)}:
            return values(SCHEMAS[reference.rpartition("/")[2]])
        case {"anyOf": list(choices)}:
            return st.one_of([values(choice) for choice in choices])
        case {"enum": list(words)}:
            return st.sampled_from(words)
        case {"type": "object"}:
            return _objects(schema)
        case {"type": "array"}:
            return st.lists(values(schema.get("items", {"type": "string"})), max_size=2)
        case {"type": "string"}:
            return st.text(max_size=8)
        case {"type": "integer"}:
            return st.integers(-(2**31), 2**31)
        case {"type": "number"}:
            return st.floats(allow_nan=False, allow_infinity=False, width=32)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "null"}:
            return st.none()
    return st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2)  # of any shape


def _objects(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    properties = {name: values(part) for name, part in schema.get("properties", {}).items()}
    if not properties:
        inner = schema.get("additionalProperties", {})
        return st.dictionaries(st.text(max_size=4), values(inner or {"type": "string"}), max_size=2)
    required = {name: properties.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional=properties)


@pytest.mark.parametrize("name", MODELS)
def test_every_field_of_the_document_is_there(name: str) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(MODELS[name])}
    assert known == SCHEMAS[name]["properties"].keys() - LEFT_OUT.get(name, frozenset())


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_value_of_the_document_is_read(name: str, data: st.DataObject) -> None:
    value = data.draw(values(SCHEMAS[name]))
    found = msgspec.json.decode(msgspec.json.encode(value), type=MODELS[name])
    for field in msgspec.structs.fields(MODELS[name]):
        if field.encode_name in value:
            read = msgspec.to_builtins(getattr(found, field.name))
            assert contains(read, value[field.encode_name]), field.name


def contains(read: object, sent: object) -> bool:
    """Whether what was read is what was sent, but for what a struct left out or filled in."""
    match read, sent:
        case dict(), dict():
            return all(contains(read[key], sent[key]) for key in read.keys() & sent.keys())
        case ((list() | tuple()), list()):
            return len(read) == len(sent) and all(map(contains, read, sent))
    return read == sent
