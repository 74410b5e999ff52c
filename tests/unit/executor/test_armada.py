"""Runs find their environment under the names of Armada as well."""

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.domain import armada_names


def test_a_run_has_variables_with_both_names() -> None:
    env = {
        "FAIRLEAD_JOB_ID": "j",
        "FAIRLEAD_GANG_NAME": "g",
        "FAIRLEAD_GANG_UNIFORMITY_LABEL": "rack",
        "OTHER": "x",
    }
    lease = Lease(job_id=JobId("j"), run=1, queue="q", job_set="s", node="n", env=env)
    assert armada_names.add_armada_names(lease).env == {
        **env,
        "ARMADA_JOB_ID": "j",
        "ARMADA_GANG_ID": "g",
        "ARMADA_GANG_NODE_UNIFORMITY_LABEL_NAME": "rack",
    }
