"""The asynchronous client."""

from fairlead.asynchronous.administration_methods import AdministrationMethods
from fairlead.asynchronous.array_methods import ArrayMethods
from fairlead.asynchronous.event_stream_methods import EventStreamMethods
from fairlead.asynchronous.group_methods import GroupMethods
from fairlead.asynchronous.job_action_methods import JobActionMethods
from fairlead.asynchronous.job_query_methods import JobQueryMethods
from fairlead.asynchronous.report_methods import ReportMethods
from fairlead.asynchronous.submission_methods import SubmissionMethods
from fairlead.asynchronous.webhook_methods import WebhookMethods


class AsyncClient(
    SubmissionMethods,
    GroupMethods,
    ArrayMethods,
    JobActionMethods,
    EventStreamMethods,
    JobQueryMethods,
    ReportMethods,
    AdministrationMethods,
    WebhookMethods,
):
    """A client of a Fairlead server.

    Without arguments it finds the server as the command line does (see `fairlead.discovery`).
    Raises `NotConfigured` if no server is configured; every method raises the exceptions of
    `fairlead.errors`.
    """
