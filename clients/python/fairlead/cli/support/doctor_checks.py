"""What `fairlead doctor` makes of a server's answers. Pure: answers and times in, findings out."""

import datetime
import email.utils
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead.calls.call_effects import Reply
from fairlead.cli.support import command_base, output_formats
from fairlead.models.cluster_models import Cluster, QuarantineRecord

SKEW_S_MAX: Final = 30.0
"""Clocks may differ so far before times and the expiry of tokens become misleading."""

SILENT_S_MAX: Final = 30.0
"""After so long without a heartbeat nothing new goes to a cluster."""

RECENT_S: Final = 86_400.0
"""A record that was skipped longer ago than this is listed, but no longer reported as a fault."""
QUARANTINE_SHOWN_MAX: Final = 20
HEAD_SHOWN: Final = 60

BEHIND_MESSAGES_MAX: Final = 1_000
_LAG: Final = re.compile(r"^fairlead_lookout_lag_messages (\S+)$", re.MULTILINE)


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at. `hint` says what to do where it is not as it should be.

    `code`: the exit code that it is worth, 0 if all is well.
    """

    name: str
    said: str
    hint: str = ""
    code: int = 0


class Health(msgspec.Struct, frozen=True):
    """The answer of `/readyz`."""

    ready: bool
    checks: dict[str, str] = {}
    version: str = ""


def server(url: str, reply: Reply, took_s: float) -> Finding:
    """Whether what answers is a Fairlead."""
    if reply.status == 200 and reply.body.strip() == b"ok":
        return Finding("server", f"{url} answers in {took_s * 1000:.0f} ms")
    return Finding(
        "server",
        f"{url} answers {reply.status}, but not as Fairlead does",
        "is it the address of something else, or is a proxy before it?",
        command_base.EXIT_UNREACHABLE,
    )


def clock(headers: Mapping[str, str], now: datetime.datetime) -> Finding:
    """How far the server's clock and ours are apart."""
    try:
        theirs = email.utils.parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return Finding("clock", "the server does not say what time it is")
    skew_s = (now - theirs).total_seconds()
    if abs(skew_s) <= SKEW_S_MAX:
        return Finding("clock", "this machine's clock and the server's agree")
    side = "ahead of" if skew_s > 0 else "behind"
    return Finding(
        "clock",
        f"this machine's clock is {output_formats.span(abs(skew_s))} {side} the server's",
        "set both by NTP: ages are shown wrong, and tokens may seem expired",
        command_base.EXIT_JOBS_FAILED,
    )


def is_readiness(reply: Reply) -> bool:
    """Whether this is the answer of a service about its readiness."""
    try:
        msgspec.json.decode(reply.body, type=Health)
    except msgspec.DecodeError:
        return False
    return True


def health(reply: Reply) -> list[Finding]:
    """What the server says of what it needs."""
    try:
        said = msgspec.json.decode(reply.body, type=Health)
    except msgspec.DecodeError:
        return [Finding("ready", f"/readyz answers {reply.status} and nothing to read")]
    well = ", ".join(name for name, text in said.checks.items() if text == "ok")
    found = [Finding("ready", f"what the server needs is there: {well}")] if well else []
    way_out = "the server goes on without it for now; see its logs"
    if not said.ready:
        way_out = "see the server's logs; what needs it is answered 503 until it is back"
    code = command_base.EXIT_JOBS_FAILED if said.ready else command_base.EXIT_UNREACHABLE
    found += [
        Finding(name, text, way_out, code) for name, text in said.checks.items() if text != "ok"
    ]
    return found


def versions(ours: str, reply: Reply) -> Finding:
    """Whether client and server are of one version."""
    try:
        theirs = msgspec.json.decode(reply.body, type=Health).version
    except msgspec.DecodeError:
        theirs = ""
    if not theirs:
        return Finding("version", f"this command is {ours}; the server does not say its version")
    if ours.split(".")[:2] == theirs.split(".")[:2]:
        return Finding("version", f"this command is {ours}, the server {theirs}")
    return Finding(
        "version",
        f"this command is {ours}, the server {theirs}",
        "install the client of the server's version",
        command_base.EXIT_JOBS_FAILED,
    )


def lag(reply: Reply) -> Finding:
    """How far the view is behind the log."""
    found = _LAG.search(reply.body.decode("utf-8", "replace"))
    if found is None:
        return Finding("lag", "this address does not say how far its view is behind")
    behind = int(float(found[1]))
    if behind <= BEHIND_MESSAGES_MAX:
        return Finding(
            "lag", f"the view is {output_formats.many(behind, 'message')} behind the log"
        )
    return Finding(
        "lag",
        f"the view is {output_formats.many(behind, 'message')} behind the log",
        "what is shown is old; it catches up by itself unless lookout is down or short of CPU",
        command_base.EXIT_JOBS_FAILED,
    )


def quarantine(found: Iterable[QuarantineRecord], now: datetime.datetime) -> list[Finding]:
    """The records of the log that a service could not decode."""
    records = list(found)
    if not records:
        return [Finding("log", "every record of the log could be decoded")]
    shown = [_quarantined(each, now) for each in records[:QUARANTINE_SHOWN_MAX]]
    if more := len(records) - len(shown):
        shown.append(
            Finding("log", f"{output_formats.many(more, 'older record')} could not be decoded")
        )
    return shown


def _quarantined(found: QuarantineRecord, now: datetime.datetime) -> Finding:
    stopped = [each.reader for each in found.readers if each.stopped]
    readers = ", ".join(f"{each.reader} {each.outcome}" for each in found.readers)
    reasons = "; ".join(dict.fromkeys(each.reason for each in found.readers))
    size = "no value" if found.size is None else output_formats.many(found.size, "byte")
    place = f"{found.topic}, partition {found.partition}, position {found.position}"
    said = (
        f"{place}, of {found.time}: {readers}: {reasons} (key {found.key!r}, {size}:"
        f" {found.head[:HEAD_SHOWN]!r})"
    )
    if stopped:
        name = f"{found.topic}/{found.partition}/{found.position}"
        hint = (
            f"upgrade {', '.join(stopped)} to a version that knows this event; without such a"
            f' version, restart all services with FAIRLEAD_SKIP_RECORDS=["{name}"]'
        )
        return Finding("undecodable record", said, hint, command_base.EXIT_JOBS_FAILED)
    age_s = (now - datetime.datetime.fromisoformat(found.time)).total_seconds()
    if age_s > RECENT_S:
        return Finding("undecodable record", said)
    hint = "find out who wrote it: no service of this version does"
    return Finding("undecodable record", said, hint, command_base.EXIT_JOBS_FAILED)


def clusters(found: Iterable[Cluster], now: datetime.datetime) -> list[Finding]:
    """Whether there is anywhere for jobs to run."""
    told = [_cluster(each, now) for each in found]
    return told or [
        Finding(
            "clusters",
            "no cluster has ever reported",
            "start an executor; until then jobs wait or are rejected",
            command_base.EXIT_JOBS_FAILED,
        )
    ]


def _cluster(found: Cluster, now: datetime.datetime) -> Finding:
    name = f"cluster {found.executor}"
    if found.last_heartbeat is None:
        silent_s = None
    else:
        then = datetime.datetime.fromisoformat(found.last_heartbeat)
        silent_s = (now - then).total_seconds()
    if silent_s is None or silent_s > SILENT_S_MAX:
        for_long = "never" if silent_s is None else f"{output_formats.span(silent_s)} ago"
        return Finding(
            name,
            f"its last heartbeat came {for_long}",
            "is its executor running? Nothing new goes there until it reports again",
            command_base.EXIT_JOBS_FAILED,
        )
    if found.cordoned:
        return Finding(name, f"cordoned{f': {found.reason}' if found.reason else ''}")
    return Finding(name, f"{output_formats.many(found.nodes, 'node')}, reports every few seconds")
