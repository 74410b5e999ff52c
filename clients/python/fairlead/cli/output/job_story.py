"""The history of a job in sentences, from the server's record of it. Pure."""

import datetime
import shlex
from typing import TYPE_CHECKING

from fairlead.cli.output import output_formats

if TYPE_CHECKING:
    from fairlead import JobDetail, Run, WaitingReason


def summarize(detail: "JobDetail") -> str:
    """The state and why, in one line."""
    why = find_reason(detail)
    if not why and detail.state == "RUNNING" and detail.node:
        why = f"on {detail.node}"
    return f"{detail.state}: {why}" if why else detail.state


def find_reason(detail: "JobDetail") -> str:
    """The reason for its state, if there is one."""
    if detail.why is not None:
        return detail.why.sentence
    return make_sentence(detail.reason or detail.message or "")


def describe_history(detail: "JobDetail", now: datetime.datetime) -> list[str]:
    """The state first, then its history, then commands that help."""
    sentences = [summarize(detail)]
    if detail.stopping:
        sentences.append(f"It is being stopped: {_describe_stop(detail)}.")
    if detail.why is not None:
        sentences += _describe_waiting(detail, detail.why)
    sentences.append(
        f"It was submitted {_format_ago(detail.submitted, now)} as {_describe_name(detail)}."
    )
    for run in sorted(detail.runs, key=lambda run: run.run):
        sentences.append(_describe_run(run, now))
    if detail.has_ended and not detail.runs:
        sentences.append(f"It never ran, and ended {_format_ago(detail.ended, now)}.")
    if detail.superseded_by:
        sentences.append(f"It was submitted again as job {detail.superseded_by}.")
    return sentences + _suggest_commands(detail)


def _describe_stop(detail: "JobDetail") -> str:
    newest = max(detail.runs, key=lambda run: run.run, default=None)
    if detail.stopping == "preempt" and newest is not None and newest.reason:
        return newest.reason.rstrip(".")
    return f"{detail.stopping} was requested"


def _describe_waiting(detail: "JobDetail", why: "WaitingReason") -> list[str]:
    sentences = list_excluded_nodes(why)
    for job_id, state in (why.dependencies or {}).items():
        sentences.append(f"  {(why.client_ids or {}).get(job_id, job_id)}: {state}")
    if detail.position_in_queue and why.code not in ("hold", "dependencies", "startAfter"):
        sentences.append(
            f"This job is {_format_position(detail.position_in_queue)} in queue {detail.queue}."
        )
    return sentences


def list_excluded_nodes(why: "WaitingReason") -> list[str]:
    """How many nodes are excluded, by the first reason that excludes each."""
    return [
        f"  {output_formats.format_count(nodes, 'node')}: {reason}"
        for reason, nodes in (why.nodes or {}).items()
    ]


def _format_position(position: str) -> str:
    """Say "4th", or "10001st or later" where the server has not counted further."""
    number = int(position.rstrip("+"))
    ending = (
        "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number}{ending}{' or later' if position.endswith('+') else ''}"


def _describe_name(detail: "JobDetail") -> str:
    name = f"{detail.client_id} of " if detail.client_id else "a job of "
    return f"{name}{detail.queue}/{detail.job_set}"


def _describe_run(run: "Run", now: datetime.datetime) -> str:
    where = f"on {run.node}" if run.node else "on no node yet"
    if run.cluster and run.node and run.cluster != run.node:
        where += f" of {run.cluster}"
    text = f"Run {run.run} was placed {where} {_format_ago(run.leased, now)}"
    if run.running is None:
        text += ", and did not start" if run.ended else ", and has not started yet"
    else:
        text += f", started {_format_interval(run.leased, run.running)} later"
        text += (
            f", ran for {_format_interval(run.running, run.ended)}"
            if run.ended
            else f", and has run for {output_formats.format_age(run.running, now)}"
        )
    if run.ended is None:
        return f"{text}."
    text += f", and ended as {run.state}"
    because = run.reason or run.message or ""
    if run.exit_code is not None and "exit code" not in because:
        text += f" with exit code {run.exit_code}"
    if run.preemption_cause and run.preemption_cause not in because:
        because += f"{'; ' if because else ''}it was preempted ({run.preemption_cause})"
    return f"{text}: {because.rstrip('.')}." if because else f"{text}."


def _suggest_commands(detail: "JobDetail") -> list[str]:
    """The commands that can follow."""
    match detail.state:
        case "QUEUED" if detail.why is not None and detail.why.code == "hold":
            return [f"`fairlead release {_command_line_name(detail)}` releases it."]
        case "FAILED" if detail.runs:
            return [f"`fairlead logs {_command_line_name(detail)}` shows its output."]
        case _:
            return []


def _command_line_name(detail: "JobDetail") -> str:
    """Its name on a command line: its client id if that needs no quoting, else its id."""
    name = f"{detail.queue}/{detail.job_set}/{detail.client_id}"
    is_plain = detail.client_id and "/" not in detail.client_id and shlex.quote(name) == name
    return name if is_plain else detail.id


def make_sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def _format_ago(time: str | None, now: datetime.datetime) -> str:
    return f"{output_formats.format_age(time, now)} ago" if time else "some time ago"


def _format_interval(begin: str | None, end: str | None) -> str:
    if begin is None or end is None:
        return "some time"
    parse = datetime.datetime.fromisoformat
    return output_formats.format_duration((parse(end) - parse(begin)).total_seconds())
