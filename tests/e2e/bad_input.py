"""Requests that are wrong, and what must be answered: a table over all calls.

`test_bad_input.py` sends each of them to a whole system. `{queue}` and `{job}` in paths and bodies
stand for a queue and a job that are there. A pointer is one that the answer must name among its
`errors`; "" with a status alone asks for no pointer.
"""

import gzip
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from backports import zstd

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
RUN: Final = {"command": ["true"]}
ID: Final = "00" + "0" * 26
"""What looks like a job's id, of a job that nobody has."""


class Case(NamedTuple):
    """One request. `body`: JSON, or bytes as they are."""

    method: str
    path: str
    status: int
    pointer: str = ""
    body: object = None
    headers: Mapping[str, str] = {}


def job(**more: object) -> dict[str, object]:
    """A submission of one job that runs `true`, with these fields."""
    return submission({**RUN, **more})


def pod(**more: object) -> dict[str, object]:
    """A submission of one job with a pod spec of one container, with these fields."""
    return submission({"podSpec": {"containers": [{"name": "main"}], **more}})


def container(**more: object) -> dict[str, object]:
    """A submission of one job whose only container has these fields."""
    return submission({"podSpec": {"containers": [more]}})


def submission(*jobs: object, **more: object) -> dict[str, object]:
    """A submission of these jobs."""
    return {"queue": "{queue}", "jobSet": "bad", "jobs": list(jobs), **more}


def post(path: str, status: int, pointer: str, body: object, **headers: str) -> Case:
    return Case("POST", path, status, pointer, body, headers)


def submitted(pointer: str, body: object, status: int = 422) -> Case:
    return Case("POST", "/jobs", status, pointer, body)


def raw(text: str) -> bytes:
    """A submission with this text where its only job stands."""
    return b'{"queue": "{queue}", "jobSet": "bad", "jobs": [' + text.encode() + b"]}"


def nested(depth: int) -> msgspec.Raw:
    return msgspec.Raw(b"[" * depth + b"]" * depth)


def sent(content: bytes, encoding: str, status: int) -> Case:
    headers = {"Content-Type": JSON, "Content-Encoding": encoding}
    return Case("POST", "/jobs", status, "", content, headers)


def lines(pointer: str, body: bytes, status: int = 422, query: str = "") -> Case:
    query = query or "?queue={queue}&jobSet=bad"
    return Case("POST", f"/jobs{query}", status, pointer, body, {"Content-Type": NDJSON})


SUBMIT: Final = {
    "no body": submitted("", b"", 400),
    "half a body": submitted("", b'{"queue": "q', 400),
    "a list": submitted("", []),
    "null": submitted("", b"null"),
    "a number": submitted("", b"7"),
    "an empty object": submitted("/jobSet", {}),
    "NaN": submitted("", raw('{"cpu": NaN}'), 400),
    "Infinity": submitted("", raw('{"cpu": -Infinity}'), 400),
    "a number beyond all": submitted("", raw('{"priority": 1e999}'), 400),
    "a number of 10,000 digits": submitted("", raw('{"priority": ' + "9" * 10_000 + "}"), 400),
    "an unpaired surrogate": submitted("", raw(r'{"clientId": "\ud800"}'), 400),
    "an unpaired surrogate in a pod spec": submitted(
        "", raw(r'{"podSpec": {"containers": [{"name": "\udfff"}]}}'), 400
    ),
    "what is not UTF-8": submitted("", raw("{}").replace(b"bad", b"b\xffd"), 400),
    "a byte order mark": submitted("", b"\xef\xbb\xbf{}", 400),
    "deep nesting": submitted("", b"[" * 100_000, 400),
    "deep nesting in a pod spec": submitted("/jobs/0/podSpec", pod(deep=nested(100))),
    "a NUL in the job set": submitted("/jobSet", submission(RUN, jobSet="a\0")),
    "a job set up a level": submitted("/jobSet", submission(RUN, jobSet="a/../b")),
    "a job set of one dot": submitted("/jobSet", submission(RUN, jobSet=".")),
    "a job set with an empty part": submitted("/jobSet", submission(RUN, jobSet="a//b")),
    "a job set that is a history": submitted("/jobSet", submission(RUN, jobSet="a/events")),
    "a NUL in a command": submitted("/jobs/0/command/0", job(command=["a\0b"])),
    "a NUL in a name": submitted("/jobs/0/labels/a\0", job(labels={"a\0": "x"})),
    "a NUL that nobody reads": submitted(
        "/jobs/0/podSpec/containers/0/args/0", container(args=["\0"])
    ),
    "a name said twice": submitted("/queue", b'{"queue": "a", "queue": "b"}'),
    "a name said twice in a job": submitted("/jobs/0/cpu", raw('{"cpu": 1, "cpu": 2}')),
    "a name said twice in a pod spec": submitted(
        "/jobs/0/podSpec/hostNetwork",
        raw('{"podSpec": {"containers": [{}], "hostNetwork": false, "hostNetwork": true}}'),
    ),
    "an unknown field": submitted("/more", submission(RUN, more=1)),
    "an unknown field of a job": submitted("/jobs/0/colour", job(colour=1)),
    "an unknown field of a gang": submitted("/jobs/0/gang/colour", job(gang={"colour": 1})),
    "a requirement of a node without its key": submitted(
        "/jobs/0/podSpec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
        "/nodeSelectorTerms/0/matchExpressions/0/key",
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"operator": "Exists"}]}]
                    }
                }
            }
        ),
    ),
    "a text for a number": submitted("/jobs/0/priority", job(priority="high")),
    "a fraction for a whole number": submitted("/jobs/0/priority", job(priority=1.5)),
    "true for a number": submitted("/jobs/0/cpu", job(cpu=True)),
    "a list for an object": submitted("/jobs/0/labels", job(labels=[])),
    "an object for a list": submitted("/jobs", submission(RUN, jobs={})),
    "a number for a job": submitted("/jobs/0", submission(7)),
    "a wrong type far inside": submitted(
        "/jobs/0/podSpec/containers/0/resources/requests/cpu",
        container(resources={"requests": {"cpu": []}}),
    ),
    "a number too large for a priority": submitted("/jobs/0/priority", job(priority=2**31)),
    "a time in the wrong words": submitted("/jobs/0/startAfter", job(startAfter="tomorrow")),
    "a time of a year that is none": submitted(
        "/jobs/0/startAfter", job(startAfter="99999-01-01T00:00:00Z")
    ),
    "seconds below nothing": submitted("/jobs/0/maxRuntimeSeconds", job(maxRuntimeSeconds=-1)),
    "an unknown word": submitted("/jobs/0/onPreemption", job(onPreemption="cry")),
    "an unknown failure": submitted("/jobs/0/retry/on/0", job(retry={"limit": 1, "on": ["bad"]})),
    "a factor below one": submitted("/jobs/0/retry/memoryFactor", job(retry={"memoryFactor": 0.5})),
    "a quantity that is none": submitted("/jobs/0/memory", job(memory="1 GB")),
    "less than nothing": submitted("/jobs/0/memory", job(memory="-1Gi")),
    "more than any machine has": submitted("/jobs/0/memory", job(memory="1e30")),
    "a limit below the request": submitted(
        "/jobs/0/podSpec/containers/0/resources/limits/cpu",
        container(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}),
    ),
    "no container": submitted("/jobs/0/podSpec/containers", submission({"podSpec": {}})),
    "nothing to run": submitted("/jobs/0", submission({})),
    "a pod spec beside a command": submitted(
        "/jobs/0/command", submission({**RUN, "podSpec": {"containers": [{}]}})
    ),
    "a pod spec that is too large": submitted("/jobs/0/podSpec", container(args=["x" * 70_000])),
    "a grace that is too long": submitted(
        "/jobs/0/podSpec/terminationGracePeriodSeconds", pod(terminationGracePeriodSeconds=301)
    ),
    "an operator that Kubernetes does not know": submitted(
        "/jobs/0/podSpec/tolerations/0/operator", pod(tolerations=[{"operator": "Like"}])
    ),
    "an unknown class": submitted("/jobs/0/priorityClass", job(priorityClass="royal")),
    "an unknown queue": submitted("/queue", submission(RUN, queue="nobody")),
    "a queue that is no name": submitted("/queue", submission(RUN, queue="a/b")),
    "a namespace that is none": submitted("/jobs/0/namespace", job(namespace="A_b")),
    "a label of Fairlead's own": submitted(
        "/jobs/0/labels/fairlead.dev~1queue", job(labels={"fairlead.dev/queue": "x"})
    ),
    "too many bytes of labels": submitted(
        "/jobs/0/labels", job(labels={f"k{n}": "x" * 60 for n in range(90)})
    ),
    "a client id that is too long": submitted("/jobs/0/clientId", job(clientId="x" * 129)),
    "one client id for two jobs": submitted(
        "/jobs/1/clientId", submission({**RUN, "clientId": "a"}, {**RUN, "clientId": "a"})
    ),
    "a client id for all": submitted(
        "/defaults/clientId", submission(RUN, defaults={"clientId": "a"})
    ),
    "a gang without a size": submitted("/jobs/0/gang/size", job(gang={"name": "g"})),
    "members that disagree": submitted(
        "/jobs/1/gang",
        submission(
            {**RUN, "gang": {"name": "g", "size": 2}}, {**RUN, "gang": {"name": "g", "size": 3}}
        ),
    ),
    "a gang of Armada's without a size": submitted(
        "/jobs/0/annotations/armadaproject.io~1gangCardinality",
        job(annotations={"armadaproject.io/gangId": "g"}),
    ),
    "a job that waits for itself": submitted("/jobs/0/after/0", job(clientId="a", after=["a"])),
    "services": submitted(
        "/jobs/0/services/0/type", job(services=[{"type": "NodePort", "ports": [1]}])
    ),
    "too many jobs": submitted("/jobs", submission(*([{}] * 10_001))),
    "a word for a flag": post("/jobs?dryRun=yes", 422, "/query/dryRun", job()),
    "a parameter that is misspelt": post("/jobs?dryrun=true", 422, "/query/dryrun", job()),
    "a parameter said twice": post("/jobs?dryRun=true&dryRun=true", 422, "/query/dryRun", job()),
}

ENCODINGS: Final = {
    "another content type": Case(
        "POST", "/jobs", 415, "", b"a: 1", {"Content-Type": "application/yaml"}
    ),
    "another charset": Case(
        "POST", "/jobs", 415, "", b"{}", {"Content-Type": f"{JSON}; charset=utf-16"}
    ),
    "an unknown encoding": sent(b"{}", "br", 415),
    "what is no gzip": sent(b"{}", "gzip", 400),
    "half a gzip": sent(gzip.compress(b"{}" * 500)[:-9], "gzip", 400),
    "a gzip bomb": sent(gzip.compress(b" " * (64 * 2**20)), "gzip", 413),
    "very many gzips": sent(gzip.compress(b"") * 5_000, "gzip", 400),
    "what is no zstd": sent(b"{}", "zstd", 400),
    "half a zstd": sent(zstd.compress(b"{}" * 500)[:-3], "zstd", 400),
    "a zstd bomb": sent(zstd.compress(b" " * (64 * 2**20)), "zstd", 413),
    "a body that is too large": sent(b" " * (33 * 2**20), "identity", 413),
    "lines for an action": Case("POST", "/jobs/cancel", 415, "", b"{}", {"Content-Type": NDJSON}),
}

LINES: Final = {
    "a line that is no JSON": lines("/lines/2", b'{"command": ["true"]}\nno\n', 400),
    "half a line": lines("/lines/1", b'{"command": ["tr', 400),
    "an unknown field in a line": lines("/lines/3/colour", b'\n\n{"colour": 1}\n'),
    "a name said twice in a line": lines("/lines/1/cpu", b'{"cpu": 1, "cpu": 1}'),
    "a line that asks for too much": lines("/lines/1/cpu", b'{"command": ["a"], "cpu": "1e30"}'),
    "no queue": lines("/query/queue", b"{}", query="?jobSet=bad"),
    "no job set": lines("/query/jobSet", b"{}", query="?queue={queue}"),
    "an unknown queue for lines": lines("/query/queue", b"{}", query="?queue=nobody&jobSet=bad"),
    "no line at all": lines("/jobs", b""),
    "too many lines": lines("", b"{}\n" * 10_001),
    "a line without end": lines("", b'{"env": "' + b"x" * (2 * 2**20), 413),
}


def _actions() -> dict[str, Case]:
    """What is wrong alike with each action."""
    made: dict[str, Case] = {}
    for name in ("cancel", "preempt", "reprioritize", "resubmit"):
        needed: Mapping[str, dict[str, object]] = {
            "reprioritize": {"priority": 1},
            "resubmit": {"jobSet": "bad"},
        }
        more = needed.get(name, {})
        path = f"/jobs/{name}"
        bodies: Sequence[tuple[str, int, str, object]] = (
            ("neither ids nor filter", 422, "", {**more}),
            ("both", 422, "", {"ids": [ID], "filter": {"queue": "{queue}"}, **more}),
            ("an id that is none", 422, "/ids/1", {"ids": [ID, "x"], **more}),
            ("an id of a partition that is none", 422, "/ids/0", {"ids": ["z" * 28], **more}),
            ("an id that nobody has", 404, "/ids/0", {"ids": [ID], **more}),
            ("an unknown queue", 422, "/filter/queue", {"filter": {"queue": "no"}, **more}),
            (
                "an unknown state",
                422,
                "/filter/states/0",
                {"filter": {"queue": "{queue}", "states": ["TIRED"]}, **more},
            ),
            ("an unknown field", 422, "/colour", {"ids": [ID], "colour": 1, **more}),
        )
        for what, status, pointer, body in bodies:
            made[f"{name}: {what}"] = post(path, status, pointer, body)
    return made


ACTIONS: Final = {
    **_actions(),
    "reprioritize: no priority": post(
        "/jobs/reprioritize", 422, "/priority", {"filter": {"queue": "{queue}"}}
    ),
    "cancel: a reason without end": post(
        "/jobs/cancel", 422, "/reason", {"ids": [ID], "reason": "x" * 2_000}
    ),
    "cancel: a label that is none": post(
        "/jobs/cancel", 422, "/filter/labels/a b", {"filter": {"queue": "q", "labels": {"a b": ""}}}
    ),
    "cancel: too large a body": post("/jobs/cancel", 413, "", b" " * (2 * 2**20)),
    "release: no ids": post("/jobs/release", 422, "/ids", {}),
    "release: a filter": post("/jobs/release", 422, "/filter", {"ids": [ID], "filter": {}}),
    "resubmit: no job set": post("/jobs/resubmit", 422, "/jobSet", {"ids": ["{job}"]}),
    "resubmit: another queue that is none": post(
        "/jobs/resubmit", 422, "/queue", {"ids": ["{job}"], "jobSet": "bad", "queue": "no"}
    ),
    "an action that nobody started": Case("GET", "/actions/none", 404),
    "an action with a NUL": Case("GET", "/actions/%00", 404),
}

QUEUES: Final = {
    "a queue without a name": post("/queues", 422, "/name", {}),
    "a queue that is there": post("/queues", 409, "", {"name": "{queue}"}),
    "a weight of nothing": post("/queues", 422, "/weight", {"name": "a", "weight": 0}),
    "a weight below nothing": post("/queues", 422, "/weight", {"name": "a", "weight": -1}),
    "a weight that is no number": post("/queues", 400, "", b'{"name": "a", "weight": NaN}'),
    "a weight without end": post("/queues", 400, "", b'{"name": "a", "weight": 1e999}'),
    "a limit of an unknown class": post(
        "/queues", 422, "/limits/royal", {"name": "a", "limits": {"royal": {"cpu": 1}}}
    ),
    "a fraction above one": post(
        "/queues", 422, "/limits/default/cpu", {"name": "a", "limits": {"default": {"cpu": 2}}}
    ),
    "an unknown verb": post(
        "/queues",
        422,
        "/permissions/0/verbs/0",
        {"name": "a", "permissions": [{"subjects": ["me"], "verbs": ["own"]}]},
    ),
    "nobody who may": post(
        "/queues", 422, "/permissions/0/subjects", {"name": "a", "permissions": [{"verbs": []}]}
    ),
    "retries without end": post(
        "/queues", 422, "/retryPolicy/limit", {"name": "a", "retryPolicy": {"limit": 10**6}}
    ),
    "another name in the path": Case(
        "PUT", "/queues/{queue}", 422, "/name", {"name": "other", "weight": 2}
    ),
    "a stale ETag": Case("PUT", "/queues/{queue}", 412, "", {}, {"If-Match": '"0"'}),
    "an ETag that is none": Case("PUT", "/queues/{queue}", 412, "", {}, {"If-Match": "x"}),
    "removed by a stale ETag": Case(
        "DELETE", "/queues/{queue}", 412, "", None, {"If-Match": '"0"'}
    ),
    "removed with a job that waits": Case("DELETE", "/queues/{queue}", 409),
    "a queue that nobody made": Case("GET", "/queues/nobody", 404),
    "a queue with a NUL": Case("GET", "/queues/%00", 404),
    "a cordon of a queue with a NUL": post("/queues/%00/cordon", 404, "", {}),
    "a NUL in a filter": Case("GET", "/jobs?q=%00", 422, "/query/q"),
    "replacing what is not there": Case("PUT", "/queues/nobody", 404, "", {}),
    "removing what is not there": Case("DELETE", "/queues/nobody", 404),
    "cordoning what is not there": post("/queues/nobody/cordon", 404, "", {}),
    "a cordon with more": post("/queues/{queue}/cordon", 422, "/why", {"why": "x"}),
    "a page without a queue": Case("GET", "/queues?limit=0", 422, "/query/limit"),
    "too long a page": Case("GET", "/queues?limit=1001", 422, "/query/limit"),
    "another list's cursor": Case("GET", "/queues?cursor=WzEsMiwiYSJd", 400, "/query/cursor"),
    "a misspelt parameter of queues": Case("GET", "/queues?limt=5", 422, "/query/limt"),
    "a place in the log that is none": Case("GET", "/queues?after=x", 400, "/query/after"),
    "a wait for a queue that is none": Case("GET", "/queues/{queue}?wait=1h", 422, "/query/wait"),
    "a misspelt parameter of classes": Case("GET", "/priority-classes?x=1", 422, "/query/x"),
    "a parameter that tokens lack": Case("GET", "/tokens?mine=true", 422, "/query/mine"),
    "another list's cursor of tokens": Case("GET", "/tokens?cursor=WzEs", 400, "/query/cursor"),
    "trying a token": post("/tokens?dryRun=true", 422, "/query/dryRun", {"roles": ["viewer"]}),
    "counting something else": Case("GET", "/queues?include=all", 422, "/query/include"),
    "a mark without a word": Case("PUT", "/executors/x", 422, "/cordoned", {}),
    "a mark in another word": Case("PUT", "/executors/x", 422, "/cordoned", {"cordoned": "yes"}),
    "a mark on nobody": Case("PUT", "/executors/nobody", 404, "", {"cordoned": True}),
    "a mark on no node": Case("PUT", "/executors/a/nodes/b", 404, "", {"cordoned": True}),
    "a mark on an odd name": Case(
        "PUT", "/executors/a%20b", 422, "/path/executor", {"cordoned": True}
    ),
}

QUERIES: Final = {
    "an unknown state": Case("GET", "/jobs?state=TIRED", 422, "/query/state"),
    "an unknown group": Case("GET", "/jobs?groupBy=colour", 422, "/query/groupBy"),
    "a page without a job": Case("GET", "/jobs?limit=0", 422, "/query/limit"),
    "a limit that is none": Case("GET", "/jobs?limit=x", 422, "/query/limit"),
    "a cursor that is none": Case("GET", "/jobs?cursor=x", 400, "/query/cursor"),
    "a cursor of another query": Case("GET", "/jobs?cursor=WzEsMiwiYSJd", 400, "/query/cursor"),
    "a position that is none": Case("GET", "/jobs?after=x", 400, "/query/after"),
    "a wait that is none": Case("GET", "/jobs?after=e30&wait=long", 422, "/query/wait"),
    "a job that nobody has": Case("GET", f"/jobs/{ID}", 404),
    "a job that is no id": Case("GET", "/jobs/x", 404),
    "the log of a job that nobody has": Case("GET", f"/jobs/{ID}/logs", 404),
    "a run below the first": Case("GET", f"/jobs/{ID}/logs?run=0", 422, "/query/run"),
    "a job set that is not there": Case("GET", "/jobsets/{queue}/nothing", 404),
    "waiting for an odd thing": Case(
        "GET", "/jobsets/{queue}/nothing?until=dawn", 422, "/query/until"
    ),
    "the events of no job set": Case("GET", "/jobsets/{queue}/nothing/events", 404),
}

ENTRY_POINTS: Final = {
    "no token": Case("POST", "/jobs", 401, "", job(), {"Authorization": ""}),
    "a wrong token": Case("POST", "/jobs", 401, "", job(), {"Authorization": "Bearer fl_no"}),
    "another scheme": Case("GET", "/queues", 401, "", None, {"Authorization": "Digest x"}),
    "a method that is none": Case("DELETE", "/jobs", 405),
    "no such call": Case("GET", "/kobolds", 404),
    "another host": Case("GET", "/queues", 400, "", None, {"Host": "evil.example"}),
}

EVERY_OTHER_CALL: Final = {
    "clusters: a position that nobody gave": Case(
        "GET", "/clusters?after=never", 400, "/query/after"
    ),
    "nodes: of no such cluster": Case("GET", "/clusters/nobody/nodes", 404),
    "nodes: a wait that is no time": Case(
        "GET", "/clusters/local/nodes?wait=long", 422, "/query/wait"
    ),
    "events: without a queue": Case("GET", "/events", 422, "/query/queue"),
    "events: of no such queue": Case("GET", "/events?queue=nobody", 404),
    "events: behind an event that nobody gave": Case(
        "GET", "/events?queue={queue}&lastEventId=xyz", 400, "/header/last-event-id"
    ),
    "fairness: a time that is none": Case(
        "GET", "/fairness?queue={queue}&from=yesterday", 422, "/query/from"
    ),
    "fairness: of no such queue": Case("GET", "/fairness?queue=nobody", 404),
    "export: another format": Case("GET", "/jobs/export.csv?format=xml", 422, "/query/format"),
    "export: sorted by nothing known": Case(
        "GET", "/jobs/export.csv?sort=name", 422, "/query/sort"
    ),
    "job sets: no such limit": Case("GET", "/jobsets?limit=0", 422, "/query/limit"),
    "job sets: active or what": Case("GET", "/jobsets?active=perhaps", 422, "/query/active"),
    "job sets: a cursor that nobody gave": Case("GET", "/jobsets?cursor=xyz", 400, "/query/cursor"),
    "export of job sets: a parameter too many": Case(
        "GET", "/jobsets/export.csv?colour=red", 422, "/query/colour"
    ),
    "pool: no such pool": Case("GET", "/pools/nobody/report", 404),
    "pool: a position that nobody gave": Case(
        "GET", "/pools/default/report?after=x", 400, "/query/after"
    ),
    "rounds: more than there may be": Case(
        "GET", "/pools/default/rounds?limit=100000", 422, "/query/limit"
    ),
    "quarantine: a limit that is no number": Case(
        "GET", "/quarantine?limit=all", 422, "/query/limit"
    ),
    "uncordon: no such queue": post("/queues/nobody/uncordon", 404, "", None),
    "uncordon: a version that it does not have": Case(
        "POST", "/queues/{queue}/uncordon", 412, "", None, {"If-Match": '"never"'}
    ),
    "secrets: of no such queue": Case("GET", "/queues/nobody/secrets", 404),
    "secrets: a wait that is none": Case(
        "GET", "/queues/{queue}/secrets?wait=1h", 422, "/query/wait"
    ),
    "secret: none in the body": Case("PUT", "/queues/{queue}/secrets/s", 422, "/values", {}),
    "secret: a value that is no text": Case(
        "PUT", "/queues/{queue}/secrets/s", 422, "/values/a", {"values": {"a": 1}}
    ),
    "secret: a key without a name": Case(
        "PUT", "/queues/{queue}/secrets/s", 422, "/values", {"values": {"": "x"}}
    ),
    "secret: a name with a NUL": Case(
        "PUT", "/queues/{queue}/secrets/%00", 422, "/name", {"values": {"a": "x"}}
    ),
    "secret: of no such queue": Case("DELETE", "/queues/nobody/secrets/s", 404),
    "secret: removing what is not there": Case("DELETE", "/queues/{queue}/secrets/s", 404),
    "queue report: of no such queue": Case("GET", "/queues/nobody/report", 404),
    "sign-in link: a parameter too many": Case(
        "POST", "/sign-in-links?for=root", 422, "/query/for"
    ),
    "webhooks: a cursor that is none": Case("GET", "/webhooks?cursor=x", 400),
    "webhook: no such webhook": Case("GET", "/webhooks/nobody", 404),
    "webhook: a name with a NUL": Case("GET", "/webhooks/%00", 404),
    "webhook: without a URL": Case("POST", "/webhooks", 422, "/url", {"name": "w"}),
    "webhook: a private address": Case(
        "POST", "/webhooks", 422, "/url", {"name": "w", "url": "http://169.254.169.254/"}
    ),
    "webhook: replacing what is not there": Case(
        "PUT", "/webhooks/nobody", 404, "", {"name": "nobody", "url": "https://a.example/"}
    ),
    "webhook: removing what is not there": Case("DELETE", "/webhooks/nobody", 404),
    "webhook: the secret of what is not there": Case("POST", "/webhooks/nobody/rotate", 404),
    "webhook: a test of what is not there": Case("POST", "/webhooks/nobody/test", 404),
    "webhook: deliveries of what is not there": Case("GET", "/webhooks/nobody/deliveries", 404),
    "webhook: a delivery of what is not there": Case("GET", "/webhooks/nobody/deliveries/1", 404),
    "webhook: a delivery that is no number": Case(
        "GET", "/webhooks/nobody/deliveries/mine", 422, "/path/delivery"
    ),
    "webhook: a replay of what is not there": Case("POST", "/webhooks/nobody/replay", 404),
    "webhook: replays of what is not there": Case("GET", "/webhooks/nobody/replays", 404),
    "webhook: a delivery once more": Case("POST", "/webhooks/nobody/deliveries/1/replay", 404),
    "saved views: an unknown parameter": Case("GET", "/saved-views?x=1", 422, "/query/x"),
    "saved view: without a name": Case("POST", "/saved-views", 422, "/name", {"address": "/jobs"}),
    "saved view: renamed without a name": Case("PUT", "/saved-views/1", 422, "/name", {}),
    "saved view: no such view": Case("DELETE", "/saved-views/999999999", 404),
    "token: no such token": Case("DELETE", "/tokens/999999999", 404),
    "token: an id that is no number": Case("DELETE", "/tokens/mine", 404),
}
"""At least one for each call that is not in the tables above."""

FILTERS_THAT_FIND_NOTHING: Final = {
    "no job of a class": Case("GET", "/jobs?queue={queue}&class=none", 200),
    "no job of a queue": Case("GET", "/jobs?queue=nobody", 200),
    "nothing to cancel": post(
        "/jobs/cancel", 200, "", {"filter": {"queue": "{queue}", "jobSet": "nothing"}}
    ),
    "nothing to submit again": post(
        "/jobs/resubmit", 202, "", {"filter": {"queue": "{queue}", "jobSet": "no"}, "jobSet": "bad"}
    ),
}
"""These are no mistakes: they find nothing, and say so."""

GROUPS: Final[Mapping[str, Mapping[str, Case]]] = {
    "submit": SUBMIT,
    "encodings": ENCODINGS,
    "lines": LINES,
    "actions": ACTIONS,
    "queues": QUEUES,
    "looking": QUERIES,
    "doors": ENTRY_POINTS,
    "others": EVERY_OTHER_CALL,
    "nothing": FILTERS_THAT_FIND_NOTHING,
}
CASES: Final = {
    f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()
}
