"""The page of an array: its tasks by state, why tasks wait, and a list of the tasks."""

from typing import Final
from urllib.parse import quote

from fastapi import APIRouter

from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ROWS, ListExport, Rows
from fairlead_lookout.http.lookups import array_lookup
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.jobs import permitted_actions
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.request_parameters import TaskState
from fairlead_lookout.http.responses import array_responses
from fairlead_lookout.store.queries import task_lists

PAGE_SIZE: Final = 50


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, "/arrays/{array}", "array.html", "jobsets", _array, is_exported=True)


async def _array(deps: Deps, array: str, state: TaskState = None, cursor: Text = None) -> Fragment:
    """An array with its tasks by state, and a page of the tasks in one state or in any."""
    path, query = f"/arrays/{quote(array, safe='')}", {"state": state}

    async def read(visible_queues: QueueScope) -> Values:
        found = await array_lookup.find_array(deps, visible_queues, array)
        page = await task_lists.read_tasks(deps.view, found, state, PAGE_SIZE, cursor)
        described = array_responses.describe_array(found)
        return {
            "live": build_address(f"/live{path}", query | {"cursor": cursor}),
            "exports": build_address(f"/export{path}", query),
            "array": described,
            "actions": permitted_actions.list_possible_of_array(described.states),
            "tasks": array_responses.describe_tasks(page, deps.clusters).tasks,
            "state": state,
            "path": path,
            "first": build_address(path, query) if cursor else None,
            "next": build_address(path, query | {"cursor": page.next}) if page.next else None,
        }

    async def read_own(caller: Caller, values: Values) -> Values:
        queue = values["array"].queue
        return {"permitted": await permitted_actions.list_permitted(deps.visibility, caller, queue)}

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_page(cursor: str | None) -> tuple[Rows, str | None]:
            found = await array_lookup.find_array(deps, visible_queues, array)
            page = await task_lists.read_tasks(deps.view, found, state, ROWS, cursor)
            return array_responses.describe_tasks(page, deps.clusters).tasks, page.next

        return [ListExport("tasks", array_responses.TaskResponse, read_page)]

    key = (array, state, cursor)
    return Fragment("_array.html", key, read, read_own=read_own, list_exports=list_exports)
