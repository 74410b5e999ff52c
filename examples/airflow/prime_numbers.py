"""Counts prime numbers in jobs on Fairlead, from Airflow (docs/airflow.md).

Each call of `count_primes` and `add` runs as a job: what they print is in the log of their task,
what they return goes to the next task. `report` is a command.
"""

from airflow.sdk import DAG, task

from fairlead_airflow.operator import FairleadSubmitOperator

SMALL = {"cpu": "100m", "memory": "64Mi"}

with DAG("prime_numbers", schedule=None, tags=["fairlead"]):

    @task.fairlead(job=SMALL)
    def count_primes(limit: int) -> int:
        """How many prime numbers are below the limit."""
        is_prime = bytearray([1]) * limit
        for n in range(2, int(limit**0.5) + 1):
            if is_prime[n]:
                is_prime[n * n :: n] = bytes(len(range(n * n, limit, n)))
        print("prime numbers below", limit)
        return sum(is_prime[2:])

    @task.fairlead(job=SMALL)
    def add(small: int, large: int) -> dict[str, int]:
        """The sum of two results."""
        return {"sum": small + large}

    total = add(count_primes(1_000), count_primes.override(task_id="count_more")(1_000_000))
    report = FairleadSubmitOperator(
        task_id="report",
        jobs={"command": ["echo", "{{ ti.xcom_pull('add')['sum'] }} prime numbers"], **SMALL},
    )
    total >> report
