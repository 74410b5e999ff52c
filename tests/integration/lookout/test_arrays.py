"""What the API says of arrays: counts, reasons, lists, and tasks that are no jobs yet."""

from importlib import resources

import asyncpg
import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_permissions import prepare_tokens
from tests.unit.lookout.builders import submitted


def array_id(name: str) -> ids.ArrayId:
    return ids.client_array_id(ids.job_set_partition("q", "s"), "q", "s", name)


def array(name: str, count: int, running_max: int | None = None) -> events.ArraySubmitted:
    made = array_id(name)
    template = submitted(name, job_id=ids.JobId(made), labels={"team": "a"})
    return events.ArraySubmitted(
        array=made,
        template=template,
        count=count,
        indexes=f"0-{count - 1}",
        running_max=running_max,
    )


def released(name: str, index: int) -> events.JobSubmitted:
    task = events.ArrayTask(array_id(name), index, 10, index)
    return submitted(name, job_id=ids.task_id(array_id(name), index), client_id=None, array=task)


async def read(harness: LookoutHarness, name: str, after: str) -> dict[str, object]:
    found: dict[str, object] = await harness.read(f"/arrays/{array_id(name)}", after)
    return found


async def test_an_array_shows_its_tasks_by_state_and_why_they_wait(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(array("a", 1_000_000, running_max=2))
        found = await read(harness, "a", after)
        assert (found["tasks"], found["waiting"], found["states"]) == (
            1_000_000, 1_000_000, {"QUEUED": 1_000_000},
        )  # fmt: skip
        first = ids.task_id(array_id("a"), 0)
        leased = events.JobRunLeased(job_id=first, run=1, executor="e", node="n0")
        after = await harness.append_events(released("a", 0), released("a", 1), leased)
        found = await read(harness, "a", after)
        assert (found["waiting"], found["live"]) == (999_998, 1_000_000)
        assert found["states"] == {"QUEUED": 999_999, "LEASED": 1}
        why = found["why"]
        assert isinstance(why, dict)
        assert why["code"] == "max-running"
        assert "at most 2 tasks at a time" in why["sentence"]
        job_set = await harness.read("/jobsets/q/s", after)
        assert (job_set["jobs"], job_set["live"]) == (1_000_000, 1_000_000)
        page = (await harness.client.get(f"/arrays/{array_id('a')}")).text
        assert "at most 2 tasks at a time" in page
        page = (await harness.client.get(f"/jobs/{first}")).text
        assert f'<a href="/arrays/{array_id("a")}">task 0 of 10</a>' in page


async def test_a_task_without_a_row_is_answered_from_its_array(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        cancelled = events.ArrayTasksCancelled(
            array=array_id("a"), indexes="5-7,9", tasks=4, reason="wrong input", by="ann"
        )
        requested = events.ArrayCancelRequested(array=array_id("a"), reason="wrong input")
        after = await harness.append_events(array("a", 10), released("a", 0), requested, cancelled)
        job = await harness.read(f"/jobs/{ids.task_id(array_id('a'), 8)}", after)
        assert (job["state"], job["array"]["index"], job["labels"]) == (
            "QUEUED", 8, {"team": "a"},
        )  # fmt: skip
        assert job["why"]["code"] == "array"
        job = await harness.read(f"/jobs/{ids.task_id(array_id('a'), 6)}", after)
        assert (job["state"], job["reason"]) == ("CANCELLED", "wrong input")
        (request,) = job["userRequests"]
        assert (request["action"], request["by"]) == ("cancel", "ann")
        assert request["reason"] == "wrong input"
        for path in (f"/jobs/{job['id']}", f"/arrays/{array_id('a')}"):
            assert "requested by ann: wrong input" in (await harness.client.get(path)).text
        for index in (10, 9_999):
            answer = await harness.get(f"/jobs/{ids.task_id(array_id('a'), index)}")
            assert answer.status_code == 404
        found = await read(harness, "a", after)
        assert found["states"] == {"QUEUED": 6, "CANCELLED": 4}
        page = await harness.client.get(f"/jobs/{ids.task_id(array_id('a'), 8)}")
        assert page.status_code == 200


async def test_tasks_that_were_cancelled_one_by_one_take_one_row(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(array("a", 1_000))
        for first in (0, 400):
            after = await harness.append_events(
                *(
                    events.ArrayTasksCancelled(array=array_id("a"), indexes=str(index), tasks=1)
                    for index in range(first, first + 400, 2)
                )
            )
        for index in (0, 399, 400, 799):
            job = await harness.read(f"/jobs/{ids.task_id(array_id('a'), index)}", after)
            assert job["state"] == ("QUEUED" if index % 2 else "CANCELLED")
    connection = await asyncpg.connect(fresh_database)
    rows = await connection.fetch("SELECT * FROM fairlead_lookout.array_cancelled_tasks")
    (ranges,) = await connection.fetch("SELECT cancelled_ranges FROM fairlead_lookout.known_arrays")
    await connection.close()
    assert (len(rows), ranges["cancelled_ranges"]) == (1, 400)


async def test_arrays_and_their_waiting_tasks_show_the_priority_that_they_have_now(
    fresh_database: str, valkey_url: str
) -> None:
    def change(priority: int, **wanted: object) -> events.JobsReprioritized:
        chosen = msgspec.structs.replace(events.JobFilter(queue="q"), **wanted)
        return events.JobsReprioritized(filter=chosen, priority=priority)

    def name(array: str, priority: int) -> events.JobReprioritized:
        return events.JobReprioritized(job_id=ids.JobId(array_id(array)), priority=priority)

    async with running(fresh_database, valkey_url) as harness:

        async def priorities() -> list[int]:
            found = await harness.read("/arrays", after)
            listed = {each["clientId"]: each["priority"] for each in found["arrays"]}
            for each in "ac":
                task = await harness.read(f"/jobs/{ids.task_id(array_id(each), 2)}")
                assert task["priority"] == listed[each]
            return [listed[each] for each in "abc"]

        other = array("c", 3)
        other = msgspec.structs.replace(
            other, template=msgspec.structs.replace(other.template, labels={}, priority=4)
        )
        await harness.append_events(array("a", 3), array("b", 3), other, name("b", 2))
        after = await harness.append_events(events.ArrayEnded(array=array_id("b")))
        assert await priorities() == [0, 2, 4]
        await harness.append_events(name("a", 5), name("b", 5))
        after = await harness.append_events(change(7, labels={"team": "a"}))
        assert await priorities() == [7, 2, 4], "an array that has ended keeps its priority"
        await harness.append_events(change(8, states=(JobState.RUNNING,)))
        await harness.append_events(change(8, job_set="other"))
        await harness.append_events(change(8, executor="e"))
        after = await harness.append_events(change(8, classes=("other",)))
        assert await priorities() == [7, 2, 4]
        after = await harness.append_events(change(9, job_set="s", states=(JobState.QUEUED,)))
        assert await priorities() == [9, 2, 9]
        page = (await harness.client.get(f"/arrays/{array_id('a')}")).text
        assert "<dt>Priority</dt><dd>9 " in page


async def test_the_migration_finds_the_tasks_that_were_cancelled_before(
    empty_database: str,
) -> None:
    folder = resources.files("fairlead_lookout.store").joinpath("sql/migrations")
    scripts = sorted((item.name, item.read_text()) for item in folder.iterdir())
    connection = await asyncpg.connect(empty_database)
    await connection.execute("CREATE SCHEMA fairlead_lookout")
    for _, script in [each for each in scripts if each[0] < "0090"]:
        await connection.execute(script)
    row = ("a", "q", "s", "default", "d", 200_000, 0, "{}", 1, "anna", "5-9:2,3,70000-70001")
    await connection.execute(
        "INSERT INTO fairlead_lookout.arrays (id, queue, job_set, class, digest, tasks, waiting,"
        " submitted, submitted_ms, submitted_by, cancelled_indexes)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        *row,
    )
    await connection.execute(
        "UPDATE fairlead_lookout.arrays SET submitted = $1", '{"template": {"priority": 4}}'
    )
    for _, script in [each for each in scripts if each[0] >= "0090"]:
        await connection.execute(script)
    assert await connection.fetchval("SELECT priority FROM fairlead_lookout.arrays") == 4
    found = await connection.fetch(
        "SELECT chunk * 65536 + bit AS index"
        " FROM fairlead_lookout.array_cancelled_tasks, generate_series(0, 65535) AS bit"
        " WHERE get_bit(bits, bit) = 1 ORDER BY index"
    )
    (ranges,) = await connection.fetch("SELECT cancelled_ranges FROM fairlead_lookout.known_arrays")
    await connection.close()
    assert [each["index"] for each in found] == [3, 5, 7, 9, 70_000, 70_001]
    assert ranges["cancelled_ranges"] == 3


async def test_a_repeated_submission_and_a_new_process_count_nothing_twice(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(array("a", 10))
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(array("a", 10), released("a", 0))
        found = await read(harness, "a", after)
        assert (found["waiting"], found["states"]) == (9, {"QUEUED": 10})


async def test_lists_of_arrays_have_pages_and_filters(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        for name in ("a", "b", "c"):
            after = await harness.append_events(array(name, 3))
        after = await harness.append_events(events.ArrayEnded(array=array_id("b")))

        async def names(**query: object) -> list[str]:
            found = await harness.read("/arrays", after, **query)
            return [each["clientId"] for each in found["arrays"]]

        assert set(await names()) == {"a", "b", "c"}
        assert set(await names(active="true")) == {"a", "c"}
        assert await names(queue="q", jobSet="s", clientId="a") == ["a"]
        assert await names(queue="other") == []
        first = await harness.read("/arrays", after, limit=2)
        rest = await harness.read("/arrays", after, limit=2, cursor=first["next"])
        assert len({each["id"] for each in (*first["arrays"], *rest["arrays"])}) == 3
        by_name = await harness.read("/arrays/q/s/a", after)
        assert by_name["id"] == array_id("a")


async def test_lists_of_arrays_do_not_read_the_specs_of_their_tasks(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(array("a", 10, running_max=3))
        found = await harness.read("/arrays", after)
        assert found["arrays"] == [await read(harness, "a", after)]
    connection = await asyncpg.connect(fresh_database)
    try:
        listed = await connection.fetchval("SELECT listed FROM fairlead_lookout.arrays")
        await connection.execute("UPDATE fairlead_lookout.arrays SET submitted = 'large'")
    finally:
        await connection.close()
    assert msgspec.json.decode(listed)["template"]["spec"] == {}
    async with running(fresh_database, valkey_url) as harness:
        assert await harness.read("/arrays", after) == found


async def test_tasks_are_listed_by_index_and_state(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        made = msgspec.structs.replace(array("a", 200_000), indexes="0-199998:2")
        cancelled = events.ArrayTasksCancelled(
            array=made.array, indexes="8-12:2,199998", tasks=4, reason="wrong"
        )
        start = [released("a", index) for index in (0, 2, 4, 6)]
        start = [
            msgspec.structs.replace(each, array=msgspec.structs.replace(each.array, number=32 * at))
            for each, at in zip(start, (0, 2, 4, 6), strict=True)
            if each.array is not None
        ]
        run = events.JobRunLeased(job_id=start[1].job_id, run=1, executor="e", node="n0")
        stop = events.JobCancelRequested(job_id=start[2].job_id)
        after = await harness.append_events(
            made, array("b", 9), *start, released("b", 2), cancelled, run, stop
        )
        path = f"/arrays/{made.array}"

        async def pages(limit: int, **query: object) -> list[list[tuple[int, str, bool]]]:
            found: list[list[tuple[int, str, bool]]] = []
            cursor: dict[str, str] = {}
            while True:
                page = await harness.read(f"{path}/tasks", after, limit=limit, **query, **cursor)
                found.append([(t["index"], t["state"], t.get("released")) for t in page["tasks"]])
                if "next" not in page:
                    return found
                cursor = {"cursor": page["next"]}
                if len(found) == 4:
                    return found

        assert (await pages(5))[:2] == [
            [(0, "QUEUED", True), (2, "LEASED", True), (4, "CANCELLED", True),
             (6, "QUEUED", True), (8, "CANCELLED", False)],
            [(10, "CANCELLED", False), (12, "CANCELLED", False), (14, "QUEUED", False),
             (16, "QUEUED", False), (18, "QUEUED", False)],
        ]  # fmt: skip
        assert (await pages(3, state="QUEUED"))[:2] == [
            [(0, "QUEUED", True), (6, "QUEUED", True), (14, "QUEUED", False)],
            [(16, "QUEUED", False), (18, "QUEUED", False), (20, "QUEUED", False)],
        ]
        assert await pages(2, state="CANCELLED") == [
            [(4, "CANCELLED", True), (8, "CANCELLED", False)],
            [(10, "CANCELLED", False), (12, "CANCELLED", False)],
            [(199_998, "CANCELLED", False)],
        ]
        assert await pages(2, state="LEASED") == [[(2, "LEASED", True)]]
        assert await pages(2, state="FAILED") == [[]]
        assert (await harness.get(f"{path}/tasks", state="GONE")).status_code == 422
        assert (await harness.get(f"{path}/tasks", cursor="x")).status_code == 400
        page = (await harness.client.get(f"{path}?state=QUEUED")).text
        assert f'<a href="/jobs/{ids.task_id(made.array, 14)}">14</a>' in page
        assert "not released" in page
        first = await harness.read(f"{path}/tasks", after, state="QUEUED", limit=50)
        second = (await harness.client.get(f"{path}?state=QUEUED&cursor={first['next']}")).text
        assert f'<a href="/jobs/{first["tasks"][0]["id"]}">' not in second
        assert f'<a class="button" href="{path}?state=QUEUED#tasks">First</a>' in second


async def test_tasks_that_were_removed_are_not_listed(fresh_database: str, valkey_url: str) -> None:
    """Neither as waiting ones, nor those of an array that has ended."""
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(array("a", 6), released("a", 0), released("a", 2))
        path = f"/arrays/{array_id('a')}/tasks"
        found = await harness.read(path, after)
        assert [task["index"] for task in found["tasks"]] == [0, 2, 3, 4, 5]
        after = await harness.append_events(events.ArrayEnded(array=array_id("a")))
        found = await harness.read(path, after)
        assert [task["index"] for task in found["tasks"]] == [0, 2]


async def test_arrays_of_a_queue_that_a_caller_may_not_view_do_not_exist(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(array("a", 3))
        await harness.read("/arrays", after)
        tokens = await prepare_tokens(fresh_database)  # the queue q is for bob alone
        statuses = {}
        for name, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}"}
            task = ids.task_id(array_id("a"), 1)
            statuses[name] = [
                (await harness.client.get(f"/api/v1{path}", headers=headers)).status_code
                for path in (f"/arrays/{array_id('a')}", f"/jobs/{task}")
            ]
        assert statuses == {"anna": [404, 404], "bob": [200, 200]}


def test_a_task_of_the_builders_is_what_the_scheduler_writes() -> None:
    event = released("a", 3)
    assert msgspec.json.decode(msgspec.json.encode(event), type=events.JobSubmitted) == event


async def test_groups_that_cannot_count_waiting_tasks_say_so(
    fresh_database: str, valkey_url: str
) -> None:
    note = "tasks that wait in their arrays are in no group"
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(array("scan", 10), released("scan", 0))
        await harness.read("/jobs", after)
        text = (await harness.client.get("/jobs?queue=q&groupBy=label.team")).text
        assert "<strong data-jobs>1</strong> job matches." in text
        assert f" 9 {note}." in text
        for query in ("groupBy=state", "groupBy=node&q=scan"):
            text = (await harness.client.get(f"/jobs?{query}")).text
            assert note not in text
