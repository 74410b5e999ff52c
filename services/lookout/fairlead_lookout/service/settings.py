"""The settings of lookout."""

from typing import Annotated, Literal

from msgspec import Meta

from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.service.access_settings import Count, Positive
from fairlead_common.service.settings import Settings as Common
from fairlead_lookout.domain.webhooks.kind_requests import is_address
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks

Days = Annotated[int, Meta(ge=0)]


class Settings(Common, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of lookout beyond the common ones.

    `fold_interval_s`: the shortest time between two large batches; longer batches cost less per
    event. `fold_events_max`: events of a batch, which is reached only when the view is late, and
    jobs of a part of a bulk request, at most 10,000. `jobs_known_max`: live jobs that the fold has
    in memory.

    `events_days`: retention of public events; `jobs_days`: retention of jobs after the week in
    which they ended; `usage_days`: retention of resource-hours, preemptions and shares by the hour.
    `away_s`: how long the log or the database can be away before the process ends.

    `streams_max`: open event streams, live pages and exports; one caller can have at most
    `streams_per_caller_max` of them; `waits_max`, `waits_per_caller_max`: the same for long polls.

    `pool_size`: concurrent statements of pages and lists; `costly_max` of them can read many rows
    (groups, counts, filters by label), one per caller; of the others one caller can have three
    quarters. `export_pool_size`: connections of exports. `query_s`, `export_query_s`: the longest
    time of a statement.

    `public_url`: the address of the dashboard, for links. `webhook_delivery`: whether this process
    makes and sends deliveries of webhooks; `webhook_networks`: networks (`10.0.0.0/8`) to which
    webhooks are permitted although they are not public, also with http; `webhook_ca_file`:
    certificates that are trusted beside the system's; `webhook_pending_max`: pending deliveries of
    one webhook, later ones are made when there are fewer; `webhook_days`: retention of deliveries;
    `webhook_disable_s`: a webhook whose deliveries all failed for this long is disabled;
    `webhook_timeout_s`: the longest time of one attempt.

    `smtp_host`: the server for webhooks of the kind email, which do not exist without it;
    `smtp_security`: `starttls`, `tls`, or `none` within a trusted network; `smtp_user` and
    `smtp_password`, or `smtp_password_file`, a file with the password: who signs in; `smtp_from`:
    the address of the sender; `smtp_domains`: the domains of permitted recipients, all if empty.
    """

    priority_classes: tuple[PriorityClass, ...] = DEFAULT_CLASSES
    jobs_days: Days = 30
    usage_days: Days = 400
    fold_interval_s: Annotated[float, Meta(ge=0)] = 0.2
    fold_events_max: Count = 30_000
    jobs_known_max: Count = 100_000
    events_days: Days = 30
    away_s: Positive = 900.0
    streams_max: Count = 1_000
    streams_per_caller_max: Count = 350
    waits_max: Count = 1_000
    waits_per_caller_max: Count = 350
    pool_size: Count = 8
    costly_max: Count = 2
    export_pool_size: Count = 2
    query_s: Positive = 15.0
    export_query_s: Positive = 30.0
    public_url: str = ""
    webhook_delivery: bool = True
    webhook_networks: tuple[str, ...] = ()
    webhook_ca_file: str = ""
    webhook_pending_max: Count = 10_000
    webhook_days: Annotated[int, Meta(ge=4)] = 8
    webhook_disable_s: Positive = 5 * 86_400.0
    webhook_timeout_s: Positive = 10.0
    smtp_host: str = ""
    smtp_port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str = ""
    smtp_password: str = ""
    smtp_password_file: str = ""
    smtp_from: str = ""
    smtp_domains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for settings that are not valid or contradict each other."""
        try:
            parse_networks(self.webhook_networks)
        except ValueError as error:
            raise ValueError(f"webhookNetworks: {error}") from None
        if self.smtp_host and not is_address(self.smtp_from):
            raise ValueError("smtpFrom: with smtpHost, the e-mail address of the sender is needed")
        if self.smtp_password and self.smtp_password_file:
            raise ValueError("smtpPasswordFile: smtpPassword is set too; set only one")
        if (self.smtp_password or self.smtp_password_file) and not self.smtp_user:
            raise ValueError("smtpUser: is needed with a password")
