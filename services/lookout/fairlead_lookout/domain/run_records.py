"""What events make of the record of a run. Pure, but for the records that they are given."""

from fairlead_common.domain.records import events
from fairlead_lookout.domain.model import Job, Run


def advance(run: Run, to: str, event: events.RunEvent, time_ms: int) -> None:
    """The run goes to this state, at this time of the log."""
    given_up = run.state == "LOST"
    run.state = to
    if to == "PENDING":
        run.pending_ms = time_ms
    elif to == "RUNNING":
        run.running_ms = time_ms
    else:
        run.ended_ms = time_ms
    match event:
        case events.JobRunFailed():
            run.category = str(event.category)
            run.exit_code = event.exit_code
            run.reason = event.reason
        case events.JobRunStopped():
            run.exit_code = event.exit_code
            run.reason = run.reason or event.reason
        case events.JobRunReturned() | events.JobRunLost():
            run.reason = event.reason
        case events.JobRunSucceeded():
            run.exit_code = 0
            if given_up:
                run.reason = None
        case _:
            pass


def hand_over(job: Job, run: Run) -> bool:
    """The newest run takes over why it was to give way, now that it has ended or is given up.

    False if there is nothing to take over, or it was taken over before.
    """
    if job.stop_cause is None or run.cause is not None:
        return False
    run.cause = job.stop_cause
    run.reason = run.reason or job.stop_reason
    return True
