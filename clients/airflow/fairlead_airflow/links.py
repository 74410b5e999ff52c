"""The link from a task to its job set on the dashboard."""

from typing import Final
from urllib.parse import quote

import attrs
from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom
from airflow.sdk.types import TaskInstanceKey

KEY: Final = "fairlead_dashboard"
"""The XCom key of the address."""


def build_job_set_url(server: str, queue: str, job_set: str) -> str:
    """The address of a job set's page."""
    return f"{server.rstrip('/')}/jobsets/{quote(queue, safe='')}/{quote(job_set)}"


@attrs.define()
class JobSetLink(BaseOperatorLink):
    """The button "Fairlead" of a task."""

    name: str = "Fairlead"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the job set; empty before the submission."""
        return XCom.get_value(key=KEY, ti_key=ti_key) or ""
