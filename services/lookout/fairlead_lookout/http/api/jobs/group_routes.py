"""Routes of groups."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.web.requests import query_validation
from fairlead_common.web.requests.query_validation import After, Wait, validated_by
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import read_when_exists, wait_for_position
from fairlead_lookout.http.lookups import group_lookup
from fairlead_lookout.http.request_parameters import Cursor, Limit, Text, parse_words
from fairlead_lookout.http.responses import group_responses
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.store.queries import group_lists
from fairlead_lookout.store.queries.group_lists import GroupFilter

STATES: Final = ("QUEUED", "STARTING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED")


def check_states(text: str) -> None:
    """Raises `ValueError` for a word that is not the state of a group."""
    wrong = [word for word in parse_words(text, upper=True) if word not in STATES]
    if wrong:
        known = ", ".join(STATES)
        raise ValueError(f"{wrong[0][:40]!r} is not the state of a group. Use {known}.")


_States = Annotated[
    Annotated[str, validated_by(check_states)] | None,
    Query(max_length=200, description="One or several, separated by commas."),
]


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Lists of groups, and single groups."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/groups",
        summary="Groups with their roles, newest first",
        responses=document_responses(group_responses.GroupsPage, "Groups, newest first.", 400),
    )
    async def list_groups(
        visible_queues: VisibleQueues,
        queue: Text = None,
        job_set: Annotated[Text, Query(alias="jobSet")] = None,
        client_id: Annotated[Text, Query(alias="clientId")] = None,
        state: _States = None,
        limit: Limit = 100,
        cursor: Cursor = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)
        wanted = GroupFilter(
            visible_queues=visible_queues,
            queue=queue,
            job_set=job_set,
            client_id=client_id,
            states=parse_words(state, upper=True),
        )
        page = await group_lists.read_groups(deps.view, wanted, limit, cursor)
        return json_response(group_responses.describe_groups(page, deps.reports.find_hops))

    @router.get(
        "/groups/{group}",
        summary="One group with its members",
        responses=document_responses(group_responses.GroupDetail, "The group.", 400, 404),
    )
    async def get_group(
        visible_queues: VisibleQueues,
        group: Annotated[str, Path(max_length=64)],
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)

        async def read() -> group_responses.GroupDetail:
            return await group_lookup.find_group(deps, visible_queues, group)

        return json_response(
            await read_when_exists(deps, query_validation.parse_wait_s(wait), read)
        )
