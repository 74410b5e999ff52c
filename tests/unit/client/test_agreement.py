"""The client's structs have the fields that the servers' have, so that neither falls behind."""

import msgspec
import pytest

from fairlead import models
from fairlead_common.lifecycle import JOB_ENDED, JobState
from fairlead_lookout import public, shown
from fairlead_submit import acting, intake, queue_api, requests

SAME: dict[str, tuple[type, type, set[str]]] = {
    "job sent": (models.Job, requests.Job, {"services", "ingresses"}),
    "gang sent": (models.Gang, requests.Gang, set()),
    "retry sent": (models.Retry, requests.Retry, set()),
    "submitted": (models.Submitted, intake.Submitted, set()),
    "submitted job": (models.SubmittedJob, intake.SubmittedJob, set()),
    "cancelled": (models.Cancelled, acting.Done, {"sample"}),
    "queue": (models.Queue, queue_api.QueueView, {"version", "reason", "permissions"}),
    "job set": (models.JobSet, shown.JobSetShown, set()),
    "job in a list": (models.JobView, shown.JobShown, set()),
    "job": (models.JobDetail, shown.JobDetailShown, set()),
    "run": (models.Run, shown.RunShown, set()),
    "why": (models.Why, shown.WhyShown, set()),
    "event": (models.Event, public.PublicEvent, {"final"}),
}
"""The client's struct, the server's, and the fields that the client leaves out on purpose."""


def names(kind: type) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize(("ours", "theirs", "left_out"), SAME.values(), ids=SAME.keys())
def test_client_and_server_name_the_same_fields(
    ours: type, theirs: type, left_out: set[str]
) -> None:
    assert names(ours) == names(theirs) - left_out


def test_client_and_server_know_the_same_states() -> None:
    assert list(models.STATES) == list(JobState)
    assert models.ENDED == JOB_ENDED
