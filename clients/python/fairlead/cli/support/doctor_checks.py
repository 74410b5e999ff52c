"""The checks of `fairlead doctor`: from responses and times to findings. Pure."""

import datetime
import email.utils
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead.calls.exchange_types import Reply
from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base
from fairlead.models.cluster_models import Cluster, QuarantineRecord

SKEW_S_MAX: Final = 30.0
"""The difference of clocks above which times and the expiry of tokens mislead."""

RECENT_S: Final = 86_400.0
"""A record that was skipped longer ago is listed, but not reported as a problem."""
QUARANTINE_LISTED_MAX: Final = 20
HEAD_CHARACTERS_MAX: Final = 60

LAG_MESSAGES_MAX: Final = 1_000
_LAG: Final = re.compile(r"^fairlead_lookout_lag_messages (\S+)$", re.MULTILINE)


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one check. `hint`: what to do about a problem.

    `code`: the exit code of the problem, 0 for no problem.
    """

    name: str
    message: str
    hint: str = ""
    code: int = 0


class Health(msgspec.Struct, frozen=True):
    """The answer of `/readyz`."""

    ready: bool
    checks: dict[str, str] = {}
    version: str = ""


def check_server(url: str, reply: Reply, took_s: float) -> Finding:
    """Whether the server that answers is Fairlead."""
    if reply.status == 200 and reply.body.strip() == b"ok":
        return Finding("server", f"{url} answers in {took_s * 1000:.0f} ms")
    return Finding(
        "server",
        f"{url} answers {reply.status}, but is not a Fairlead server",
        "check the address, and whether a proxy answers instead of the server",
        command_base.EXIT_UNREACHABLE,
    )


def check_clock(headers: Mapping[str, str], now: datetime.datetime) -> Finding:
    """The difference between the server's clock and this machine's."""
    try:
        theirs = email.utils.parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return Finding("clock", "the response of the server has no valid date")
    skew_s = (now - theirs).total_seconds()
    if abs(skew_s) <= SKEW_S_MAX:
        return Finding("clock", "this machine's clock and the server's agree")
    side = "ahead of" if skew_s > 0 else "behind"
    difference = output_formats.format_duration(abs(skew_s))
    return Finding(
        "clock",
        f"this machine's clock is {difference} {side} the server's",
        "synchronize both by NTP: ages are wrong, and valid tokens can seem expired",
        command_base.EXIT_JOBS_FAILED,
    )


def is_readiness(reply: Reply) -> bool:
    """Whether this is the answer of a service about its readiness."""
    try:
        msgspec.json.decode(reply.body, type=Health)
    except msgspec.DecodeError:
        return False
    return True


def check_health(reply: Reply) -> list[Finding]:
    """The state of the server's dependencies."""
    try:
        state = msgspec.json.decode(reply.body, type=Health)
    except msgspec.DecodeError:
        return [Finding("ready", f"/readyz answers {reply.status} without readable content")]
    well = ", ".join(name for name, text in state.checks.items() if text == "ok")
    found = (
        [Finding("ready", f"the dependencies of the server are available: {well}")] if well else []
    )
    hint = "the server works without it for now; see its logs"
    if not state.ready:
        hint = "see the server's logs; requests that need it get 503 until it is available"
    code = command_base.EXIT_JOBS_FAILED if state.ready else command_base.EXIT_UNREACHABLE
    found += [
        Finding(name, text, hint, code) for name, text in state.checks.items() if text != "ok"
    ]
    return found


def check_versions(ours: str, reply: Reply) -> Finding:
    """Whether client and server have the same version."""
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


def check_lag(reply: Reply) -> Finding:
    """The lag of the view."""
    found = _LAG.search(reply.body.decode("utf-8", "replace"))
    if found is None:
        return Finding("lag", "this address does not report the lag of its view")
    lag_messages = int(float(found[1]))
    if lag_messages <= LAG_MESSAGES_MAX:
        return Finding(
            "lag",
            f"the view is {output_formats.format_count(lag_messages, 'message')} behind the log",
        )
    return Finding(
        "lag",
        f"the view is {output_formats.format_count(lag_messages, 'message')} behind the log",
        "lists are out of date; the view catches up unless lookout is down or short of CPU",
        command_base.EXIT_JOBS_FAILED,
    )


def check_quarantine(found: Iterable[QuarantineRecord], now: datetime.datetime) -> list[Finding]:
    """The records of the log that a service could not decode."""
    records = list(found)
    if not records:
        return [Finding("log", "every record of the log could be decoded")]
    findings = [_check_record(each, now) for each in records[:QUARANTINE_LISTED_MAX]]
    if more := len(records) - len(findings):
        findings.append(
            Finding(
                "log", f"{output_formats.format_count(more, 'older record')} could not be decoded"
            )
        )
    return findings


def _check_record(found: QuarantineRecord, now: datetime.datetime) -> Finding:
    stopped = [each.reader for each in found.readers if each.stopped]
    readers = ", ".join(f"{each.reader} {each.outcome}" for each in found.readers)
    reasons = "; ".join(dict.fromkeys(each.reason for each in found.readers))
    size = "no value" if found.size is None else output_formats.format_count(found.size, "byte")
    place = f"{found.topic}, partition {found.partition}, position {found.position}"
    text = (
        f"{place}, of {found.time}: {readers}: {reasons} (key {found.key!r}, {size}:"
        f" {found.head[:HEAD_CHARACTERS_MAX]!r})"
    )
    if stopped:
        name = f"{found.topic}/{found.partition}/{found.position}"
        hint = (
            f"upgrade {', '.join(stopped)} to a version that knows this event; without such a"
            f' version, restart all services with FAIRLEAD_SKIP_RECORDS=["{name}"]'
        )
        return Finding("undecodable record", text, hint, command_base.EXIT_JOBS_FAILED)
    age_s = (now - datetime.datetime.fromisoformat(found.time)).total_seconds()
    if age_s > RECENT_S:
        return Finding("undecodable record", text)
    hint = "find out which program wrote it: no service of this version does"
    return Finding("undecodable record", text, hint, command_base.EXIT_JOBS_FAILED)


def check_clusters(found: Iterable[Cluster], now: datetime.datetime) -> list[Finding]:
    """Whether there are clusters that report."""
    found_clusters = [_check_cluster(each, now) for each in found]
    return found_clusters or [
        Finding(
            "clusters",
            "no cluster has ever reported",
            "start an executor; until then jobs wait or are rejected",
            command_base.EXIT_JOBS_FAILED,
        )
    ]


def _check_cluster(found: Cluster, now: datetime.datetime) -> Finding:
    name = f"cluster {found.executor}"
    if found.last_heartbeat is None or found.status != "REPORTING":
        age = output_formats.format_age(found.last_heartbeat, now)
        return Finding(
            name,
            f"{found.status.lower()}: its last heartbeat came {age} ago"
            if found.last_heartbeat
            else "it has never sent a heartbeat",
            "check that its executor runs: it gets no new runs until it reports again"
            + (", and its runs are given up" if found.status == "LOST" else ""),
            command_base.EXIT_JOBS_FAILED,
        )
    if found.cordoned:
        return Finding(name, f"cordoned{f': {found.reason}' if found.reason else ''}")
    return Finding(
        name, f"{output_formats.format_count(found.nodes, 'node')}, reports every few seconds"
    )
