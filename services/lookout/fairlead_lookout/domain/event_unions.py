"""The events that a handler of the fold applies, as unions."""

from typing import TypeAlias

from fairlead_common.domain.records import events

BulkRequest: TypeAlias = (
    events.JobsCancelRequested | events.JobsPreemptRequested | events.JobsReprioritized
)
Request: TypeAlias = (
    events.JobCancelRequested | events.JobPreemptRequested | events.JobReprioritized
)
Decision: TypeAlias = (
    events.JobSucceeded
    | events.JobFailed
    | events.JobCancelled
    | events.JobPreempted
    | events.JobRejected
    | events.JobRequeued
)
RunReport: TypeAlias = (
    events.JobRunPending
    | events.JobRunRunning
    | events.JobRunSucceeded
    | events.JobRunFailed
    | events.JobRunReturned
    | events.JobRunStopped
    | events.JobRunLost
)
ArrayEvent: TypeAlias = (
    events.ArraySubmitted
    | events.ArrayCancelRequested
    | events.ArrayTasksCancelled
    | events.ArrayEnded
)
