"""Secret values of jobs: the job has them, and nobody finds them anywhere else."""

import asyncio
import json
from collections.abc import Iterator

import asyncpg
import httpx2
import msgspec
import pytest

from fairlead_standalone.data.data_folder import read_holder
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests.e2e.commands import run_fairlead

INLINE, STORED, CHANGED = "inline-3f9c1d-value", "stored-77ab02-value", "changed-51e0c4-value"
SCRIPT = 'for name in "$INLINE" "$STORED"; do printf %s "$name" | rev; echo; done'
"""Writes the values backwards: the output of a job is its own affair."""


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneInstallation]:
    """A running Fairlead."""
    debug = {**PYTHON_ENGINE, "FAIRLEAD_LOG_LEVEL": "DEBUG"}
    with StandaloneInstallation(tmp_path_factory.mktemp("secrets"), environment=debug) as running:
        running.start()
        yield running


def fairlead(standalone: StandaloneInstallation, *words: str, given: str = "") -> str:
    """What the command line prints."""
    done = run_fairlead(standalone, *words, given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def follow(standalone: StandaloneInstallation, job_id: str) -> list[str]:
    """The lines of a job's log; it may have to wait for the first one, and then says so."""
    printed = fairlead(standalone, "logs", "-f", job_id).splitlines()
    return [line for line in printed if "no output yet" not in line]


def job(job_set: str) -> dict[str, object]:
    """A submission of a job with both kinds of secret."""
    env = {
        "INLINE": {"value": INLINE, "secret": True},
        "STORED": {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "token"}}},
    }
    command = ["sh", "-c", SCRIPT, "$(INLINE)"]
    one = {"clientId": "a", "command": command, "env": env, "cpu": "100m", "memory": "64Mi"}
    return {"queue": "default", "jobSet": job_set, "jobs": [one]}


async def tables(url: str) -> dict[str, str]:
    """All that is in the database, by table. Bytes are read as text."""
    connection = await asyncpg.connect(url)
    try:
        names = await connection.fetch(
            "SELECT schemaname || '.' || tablename AS name FROM pg_tables"
            " WHERE schemaname LIKE 'fairlead%'"
        )
        found = {}
        for row in names:
            rows = await connection.fetch(f"SELECT * FROM {row['name']}")
            cells = [value for item in rows for value in item.values()]
            texts = [v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in cells]
            found[row["name"]] = "\n".join(texts)
    finally:
        await connection.close()
    return found


def test_a_job_has_its_secrets_and_no_api_reveals_them(standalone: StandaloneInstallation) -> None:
    store = ("secrets", "set", "mine", "token=@-", "-q", "default")
    visible_texts = [fairlead(standalone, *store, given=STORED)]
    visible_texts.append(fairlead(standalone, "secrets", "list", "-q", "default", "-o", "json"))
    assert '"token"' in visible_texts[-1]
    mine = {"Authorization": f"Bearer {standalone.token}"}
    with httpx2.Client(base_url=f"{standalone.address}/api/v1", headers=mine, timeout=60) as http:

        def take(answer: httpx2.Response, status: int = 200) -> httpx2.Response:
            assert answer.status_code == status, answer.text
            visible_texts.append(answer.text)
            return answer

        def run(job_id: str, *expected: str) -> None:
            assert follow(standalone, job_id) == [value[::-1] for value in expected]

        take(http.post("/jobs?dryRun=true", json=job("s")))
        first = take(http.post("/jobs", json=job("s"))).json()["jobs"][0]["id"]
        run(first, INLINE, STORED)
        repeated = take(http.post("/jobs", json=job("s"))).json()["jobs"][0]
        assert repeated["duplicate"]

        take(http.put("/queues/default/secrets/mine", json={"values": {"token": CHANGED}}), 204)
        again = {"ids": [first], "queue": "default", "jobSet": "again"}
        action = take(http.post("/jobs/resubmit", json=again), 202).json()["action"]

        def is_done() -> bool:
            return bool(take(http.get(f"/actions/{action}")).json()["state"] == "DONE")

        standalone.wait_for(is_done)

        def second() -> list[str]:
            listed = take(http.get("/jobs", params={"queue": "default", "jobSet": "again"})).json()
            return [item["id"] for item in listed["jobs"]]

        standalone.wait_for(lambda: len(second()) == 1)
        run(second()[0], INLINE, CHANGED)

        detail = take(http.get(f"/jobs/{first}", params={"spec": "true"})).json()
        env = detail["spec"]["containers"][0]["env"]
        assert env == [
            {"name": "INLINE", "secret": True},
            {"name": "STORED", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "token"}}},
        ]
        take(http.get(f"/jobs/{first}"))
        refused = job("s")
        refused["jobs"][0]["env"]["INLINE"]["value"] = 5  # type: ignore[index]
        take(http.post("/jobs", json=refused), 422)
        take(http.delete("/queues/default/secrets/mine"), 204)
        take(http.post("/jobs", json=job("other")), 422)
        take(http.get("/queues/default/secrets"))
    for words in (
        ("describe", "job", first),
        ("why", first),
        ("export", "jobs"),
        ("get", "jobs", "-o", "json"),
    ):
        visible_texts.append(fairlead(standalone, *words))
    page = {**mine, "Accept": "text/html"}
    with httpx2.Client(base_url=standalone.address, headers=page) as http:
        visible_texts += [http.get(path).text for path in (f"/jobs/{first}", "/", "/jobsets")]
    places = dict(enumerate(visible_texts)) | {
        file: file.read_text(errors="replace")
        for file in standalone.data.rglob("*")
        if file.is_file() and "postgres" not in file.parts[len(standalone.data.parts)]
    }
    holder = read_holder(standalone.data)
    assert holder is not None
    stored = asyncio.run(tables(holder.database_url))
    assert stored["fairlead_submit.secrets"] == ""
    for place, text in [*places.items(), *stored.items()]:
        for value in (INLINE, STORED, CHANGED):
            assert value not in text, place
    for process in (standalone.child(name) for name in ("web", "scheduler", "executor")):
        assert not any(INLINE in word for word in process.cmdline())


def test_secrets_of_a_queue_need_submit_permission(standalone: StandaloneInstallation) -> None:
    admin = {"Authorization": f"Bearer {standalone.token}"}
    url = f"{standalone.address}/api/v1"
    body = {"values": {"k": STORED}}

    def token(*roles: str, queues: list[str] | None = None) -> dict[str, str]:
        wanted = {"name": "t", "roles": roles, "label": json.dumps([roles, queues])}
        wanted |= {"queues": queues} if queues else {}
        made = httpx2.post(f"{url}/tokens", json=wanted, headers=admin)
        assert made.status_code == 201, made.text
        return {"Authorization": f"Bearer {msgspec.json.decode(made.content)['token']}"}

    path = f"{url}/queues/default/secrets"
    submitter, viewer = token("submitter"), token("viewer")
    assert httpx2.put(f"{path}/x", json=body, headers=viewer).status_code == 403
    assert httpx2.get(path, headers=viewer).status_code == 403
    assert httpx2.put(f"{path}/x", json=body, headers=submitter).status_code == 204
    assert httpx2.delete(f"{path}/x", headers=viewer).status_code == 403
    assert httpx2.delete(f"{path}/x", headers=submitter).status_code == 204
    assert httpx2.delete(f"{path}/x", headers=submitter).status_code == 404
    httpx2.post(f"{url}/queues", json={"name": "theirs"}, headers=admin)
    limited = token("submitter", queues=["theirs"])
    assert httpx2.put(f"{path}/x", json=body, headers=limited).status_code in (403, 404)
    assert httpx2.put(f"{path}/x", json={"values": {}}, headers=admin).status_code == 422
