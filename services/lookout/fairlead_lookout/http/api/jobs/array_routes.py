"""Routes of arrays."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.web.requests import query_validation
from fairlead_common.web.requests.query_validation import After, Wait
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import read_when_exists, wait_for_position
from fairlead_lookout.http.lookups import array_lookup
from fairlead_lookout.http.request_parameters import Cursor, Limit, TaskState, Text
from fairlead_lookout.http.responses import array_responses
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.store.queries import array_lists, task_lists
from fairlead_lookout.store.queries.array_lists import ArrayFilter


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Lists of arrays, and single arrays."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/arrays",
        summary="Arrays with their tasks by state, newest first",
        responses=document_responses(array_responses.ArraysResponse, "Arrays, newest first.", 400),
    )
    async def list_arrays(
        visible_queues: VisibleQueues,
        queue: Text = None,
        job_set: Annotated[Text, Query(alias="jobSet")] = None,
        client_id: Annotated[Text, Query(alias="clientId")] = None,
        active: bool = False,
        limit: Limit = 100,
        cursor: Cursor = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)
        wanted = ArrayFilter(
            visible_queues=visible_queues,
            queue=queue,
            job_set=job_set,
            client_id=client_id,
            active=active,
        )
        page = await array_lists.read_arrays(deps.view, wanted, limit, cursor)
        return json_response(array_responses.describe_arrays(page))

    @router.get(
        "/arrays/{array}/tasks",
        summary="The tasks of an array by index, also tasks that are not released yet",
        responses=document_responses(array_responses.TasksResponse, "Tasks by index.", 400, 404),
    )
    async def list_tasks(
        visible_queues: VisibleQueues,
        array: Annotated[str, Path(max_length=64, description="The id of an array.")],
        state: TaskState = None,
        limit: Limit = 100,
        cursor: Cursor = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)
        found = await array_lookup.find_array(deps, visible_queues, array)
        page = await task_lists.read_tasks(deps.view, found, state, limit, cursor)
        return json_response(array_responses.describe_tasks(page, deps.clusters))

    @router.get(
        "/arrays/{array:reference}",
        summary="One array with its tasks by state",
        responses=document_responses(array_responses.ArrayResponse, "The array.", 400, 404),
    )
    async def get_array(
        visible_queues: VisibleQueues,
        array: Annotated[str, Path(max_length=600, description="An id, or queue/jobSet/clientId.")],
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)

        async def read() -> array_responses.ArrayResponse:
            return array_responses.describe_array(
                await array_lookup.find_array(deps, visible_queues, array)
            )

        return json_response(
            await read_when_exists(deps, query_validation.parse_wait_s(wait), read)
        )
