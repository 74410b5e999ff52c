"""Runs one job on Fairlead per parameter, from Airflow (docs/airflow.md).

`list_jobs` decides how many jobs there are when the DAG runs. `map_jobs` submits all of them in one
call and gives each a task instance of its own. `count_ended` receives what became of them.
"""

from typing import Any

from airflow.sdk import DAG, task

from fairlead_airflow.mapping import map_jobs

with DAG("parameter_sweep", schedule=None, tags=["fairlead"], params={"largest": 3}):

    @task
    def list_jobs(params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """One job per number of terms: 10, 100, 1,000 and so on."""
        largest = 3 if params is None else params["largest"]
        term = "{ sum += 1 / ($1 * $1) } END { print sqrt(6 * sum) }"
        return [
            {
                "command": ["sh", "-c", f"seq {10**n} | awk '{term}'"],
                "labels": {"terms": str(10**n)},
            }
            for n in range(1, largest + 1)
        ]

    @task
    def count_ended(ended: list[list[dict[str, Any]]]) -> dict[str, int]:
        """How many of the jobs ended in each state. `ended`: the ended jobs of each instance."""
        states = [job["state"] for jobs in ended for job in jobs]
        return {state: states.count(state) for state in states}

    approximations = map_jobs(
        list_jobs(),
        task_id="approximate",
        defaults={"cpu": "100m", "memory": "64Mi"},
        retries=1,
    )
    count_ended(approximations.output)
