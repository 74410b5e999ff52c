"""Requests about groups that are refused, in the form of `bad_input.py`."""

from typing import Final

from tests.e2e.bad_input import ID, RUN, Case, post

_ROLE: Final = {"name": "a", "min": 1, "template": RUN}


def group(**more: object) -> dict[str, object]:
    """A submission of one group of one role, with these fields."""
    return {"queue": "{queue}", "jobSet": "s", "groups": [{"roles": [_ROLE], **more}]}


def role(**more: object) -> dict[str, object]:
    """A submission of one group whose role has these fields."""
    return group(roles=[{**_ROLE, **more}])


CASES: Final[dict[str, Case]] = {
    "no groups": post("/groups", 422, "/groups", {"queue": "{queue}", "jobSet": "s"}),
    "no group": post("/groups", 422, "/groups", {"queue": "{queue}", "jobSet": "s", "groups": []}),
    "no queue": post("/groups", 422, "/queue", {"jobSet": "s", "groups": []}),
    "an unknown queue": post("/groups", 422, "/queue", {**group(), "queue": "nobody"}),
    "no role": post("/groups", 422, "/groups/0/roles", group(roles=[])),
    "min above max": post("/groups", 422, "/groups/0/roles/0/min", role(min=3, max=2)),
    "too many members": post(
        "/groups",
        422,
        "/groups/0/roles",
        group(roles=[{**_ROLE, "max": 6_000}, {**_ROLE, "name": "b", "max": 6_000}]),
    ),
    "a million members": post("/groups", 422, "/groups/0/roles/0/max", role(max=1_000_000)),
    "an unknown completion role": post(
        "/groups", 422, "/groups/0/completion/roles/0", group(completion={"roles": ["b"]})
    ),
    "a role in the startup that does not exist": post(
        "/groups", 422, "/groups/0/startup/0", group(startup=["b"])
    ),
    "a topology without a level": post("/groups", 422, "/groups/0/topology", group(topology={})),
    "a gang in a template": post(
        "/groups",
        422,
        "/groups/0/roles/0/template/gang",
        role(template={**RUN, "gang": {"name": "g", "size": 2}}),
    ),
    "two roles of one name": post(
        "/groups", 422, "/groups/0/roles/1/name", group(roles=[_ROLE, _ROLE])
    ),
    "a long freeze": post(
        "/groups", 422, "/groups/0/elastic/freezeSeconds", group(elastic={"freezeSeconds": 1e9})
    ),
    "a group as text": post("/groups", 400, "", b"group"),
    "a list of groups in a state that does not exist": Case("GET", "/groups?state=HAPPY", 422),
    "a group that does not exist": Case("GET", f"/groups/{ID}", 404),
    "events of a group that does not exist": Case("GET", f"/groups/{ID}/events", 404),
    "a change of a group that does not exist": Case(
        "PATCH", f"/groups/{ID}", 404, "", {"roles": [{"name": "a", "max": 2}]}
    ),
    "a restart of a group that does not exist": post(f"/groups/{ID}/restart", 404, "", {}),
    "a restart with an unknown field": post(f"/groups/{ID}/restart", 422, "/x", {"x": 1}),
    "a cancellation of a group that does not exist": Case("DELETE", f"/groups/{ID}", 404),
    "a cancellation with an unknown parameter": Case(
        "DELETE", f"/groups/{ID}?reson=x", 422, "/query/reson"
    ),
}
