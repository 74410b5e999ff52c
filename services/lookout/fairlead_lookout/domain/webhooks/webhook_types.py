"""What a webhook is: its kind, target, filter, format, texts and secrets."""

import fnmatch
import re
from functools import lru_cache
from typing import Final, Literal, get_args

import msgspec

from fairlead_lookout.domain.public_events import EventType

EVENT_TYPES: Final[tuple[str, ...]] = get_args(EventType)
SECRET_PREFIX: Final = "whsec_"

Format = Literal["fairlead", "cloudevents"]
"""How the body of a delivery is written."""


Kind = Literal["webhook", "slack", "email", "airflow"]
"""To what deliveries are sent: a program that verifies signatures, an incoming webhook of Slack or
of a compatible server, e-mail addresses, or the API of Airflow."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
PASSWORD: Final = "password"
TOKEN: Final = "token"
"""Names of encrypted credentials."""
MISSED_MARGIN_MS: Final = 60_000
"""Events of this time before a webhook was disabled count as missed: deliveries follow events, and
can be behind."""


class EventFilter(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which events a webhook receives: all, if nothing is given. `job_set`: a pattern with `*`, `?`
    and `[...]`; `types`: types of public events."""

    queue: str | None = None
    job_set: str | None = None
    types: tuple[str, ...] = ()

    def matches_job_set(self, queue: str, job_set: str) -> bool:
        """Whether events of this job set can match."""
        if self.queue is not None and self.queue != queue:
            return False
        return self.job_set is None or _compile(self.job_set).match(job_set) is not None

    def matches_type(self, event_type: str) -> bool:
        """Whether events of this type match."""
        return not self.types or event_type in self.types


@lru_cache(maxsize=1_024)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


class Secret(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One signing secret, encrypted. `expires_ms`: when it is no longer used, after a rotation."""

    sealed: str
    created_ms: int
    expires_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        """Whether deliveries are signed with it."""
        return self.expires_ms is None or now_ms < self.expires_ms


class Template(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Texts with named fields, of slack (`text`) and email; None: the default text."""

    subject: str | None = None
    text: str | None = None


class AirflowTarget(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an event starts in Airflow: a run of `dag`, an event of the asset with the URI `asset`,
    or both. `username`: who signs in; None with a given token."""

    dag: str | None = None
    asset: str | None = None
    username: str | None = None


class KindOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What only some kinds have. `recipients`: e-mail addresses."""

    template: Template | None = None
    recipients: tuple[str, ...] = ()
    airflow: AirflowTarget | None = None


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook as it is stored.

    `url` is empty for email, `secrets` for all kinds but webhook. `headers`: additional request
    headers, values encrypted; `credentials`: a password or token of Airflow, encrypted. `ordered`:
    the events of a job set are sent one after the other. `concurrency`: deliveries under way at
    the same time. `disabled`: why it was disabled. `failing_ms`: the time of the first failure
    since the last success. `missed_from_ms`, `missed_to_ms`: the time of the events that it missed
    because it was disabled; without an end it still is, without a beginning it missed nothing.
    """

    number: int
    name: str
    version: int
    url: str
    filter: EventFilter
    format: Format
    ordered: bool
    concurrency: int
    headers: dict[str, str]
    secrets: tuple[Secret, ...]
    kind: Kind = "webhook"
    options: KindOptions = KindOptions()
    credentials: dict[str, str] = {}
    enabled: bool
    disabled: str | None
    failing_ms: int | None
    succeeded_ms: int | None
    missed_from_ms: int | None = None
    missed_to_ms: int | None = None
    changed_ms: int
    by: str

    @property
    def seal_name(self) -> str:
        """The name to which its encrypted values are bound."""
        return make_seal_name(self.name)

    def list_valid_secrets(self, now_ms: int) -> list[Secret]:
        """The secrets that sign deliveries, the newest first."""
        return [secret for secret in self.secrets if secret.is_valid(now_ms)]


def make_seal_name(name: str) -> str:
    """The name to which the encrypted values of a webhook are bound; no queue has such a name."""
    return f"webhook/{name}"


def find_missed_from_ms(now_ms: int) -> int:
    """From when on events are missed by a webhook that is disabled now."""
    return now_ms - MISSED_MARGIN_MS


def rotate_secrets(
    secrets: tuple[Secret, ...], sealed: str, now_ms: int, overlap_s: int
) -> tuple[Secret, ...]:
    """A new secret in front; the newest of the others stays valid for `overlap_s`."""
    new = Secret(sealed, now_ms)
    if not secrets or overlap_s == 0:
        return (new,)
    expires_ms = now_ms + overlap_s * 1000
    previous = secrets[0]
    if previous.expires_ms is not None:
        expires_ms = min(expires_ms, previous.expires_ms)
    return (new, msgspec.structs.replace(previous, expires_ms=expires_ms))
