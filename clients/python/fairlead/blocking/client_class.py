# Generated from fairlead/asynchronous/client_class.py (`make client`).
"""The blocking client."""

from fairlead.blocking.administration_methods import AdministrationMethods
from fairlead.blocking.array_methods import ArrayMethods
from fairlead.blocking.event_stream_methods import EventStreamMethods
from fairlead.blocking.group_methods import GroupMethods
from fairlead.blocking.job_action_methods import JobActionMethods
from fairlead.blocking.job_query_methods import JobQueryMethods
from fairlead.blocking.report_methods import ReportMethods
from fairlead.blocking.submission_methods import SubmissionMethods
from fairlead.blocking.webhook_methods import WebhookMethods


class Client(
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
    """A client of a Fairlead server; threads can share it.

    Without arguments it finds the server as the command line does (see `fairlead.discovery`).
    Raises `NotConfigured` if no server is configured; every method raises the exceptions of
    `fairlead.errors`.
    """
