"""Settings of submit, on top of those that every service has."""

from collections.abc import Mapping

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.scheduling import priority_classes, quantities
from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.service.settings import Settings, SettingsError
from fairlead_submit.domain.policy import AllowList, JobDefaults, JobPolicy, Limits, Quotas


class SubmitSettings(Settings, frozen=True, kw_only=True, rename="camel"):
    """`instance` identifies this process among all processes of submit, also after a restart: its
    producer of the log has that name. The default is the host name, which differs between
    containers. `allow`: what the jobs of a queue can use, by the queue's name. `quotas`: how many
    live jobs there can be. `pending_bytes_max`: how many bytes can wait for the log before requests
    are refused. `view_lag_s_max`: requests with many jobs are delayed so that lookout's view does
    not fall further behind than this (s). `tokens_for_others`: whether there are tokens for other
    users, or with fewer rights than an admin's, and whether users who are not admins submit jobs;
    `fairlead up` switches it off where jobs can read the secrets of the installation.
    """

    http_port: int = 8081
    instance: str = ""
    priority_classes: tuple[PriorityClass, ...] = DEFAULT_CLASSES
    job_defaults: JobDefaults = JobDefaults()
    limits: Limits = Limits()
    quotas: Quotas = Quotas()
    allow: dict[str, AllowList] = msgspec.field(default_factory=dict)
    pending_bytes_max: int = 128 * 2**20
    append_bytes_max: int = 16 * 2**20
    view_lag_s_max: float = 2.2
    sign_in_days: int = 30
    tokens_for_others: bool = True

    def with_instance(self, host: str) -> "SubmitSettings":
        """These settings, with the host name if `instance` is not set."""
        return msgspec.structs.replace(self, instance=self.instance or host)

    @property
    def job_policy(self) -> JobPolicy:
        """The part of these settings that is about jobs."""
        return JobPolicy(
            priority_classes=self.priority_classes,
            job_defaults=self.job_defaults,
            limits=self.limits,
            allow=self.allow,
        )

    def check(self) -> None:
        """Raises `SettingsError` for errors that types do not find."""
        found = priority_classes.find_errors(self.priority_classes)
        defaults = self.job_defaults
        names = sorted({item.name for item in self.priority_classes})
        if defaults.priority_class not in names:
            detail = f"is {defaults.priority_class!r}; the priority classes are: {', '.join(names)}"
            found.append(FieldError("jobDefaults.priorityClass", detail))
        found += _check_quantities(defaults.requests, "jobDefaults.requests")
        for name, amounts in defaults.overhead_by_runtime_class.items():
            found += _check_quantities(amounts, f"jobDefaults.overheadByRuntimeClass.{name}")
        for name, amounts in defaults.requests_by_claim.items():
            found += _check_quantities(amounts, f"jobDefaults.requestsByClaim.{name}")
        for field in msgspec.structs.fields(Limits):
            bound = getattr(self.limits, field.name)
            if bound < 1:
                detail = f"is {bound}; at least 1 is expected"
                found.append(FieldError(f"limits.{field.encode_name}", detail))
        for name, most in msgspec.structs.asdict(self.quotas).items():
            if most is not None and most < 0:
                found.append(FieldError(f"quotas.{name}", f"is {most}; at least 0 is expected"))
        if found:
            raise SettingsError(found)


def _check_quantities(amounts: Mapping[str, str], at: str) -> list[FieldError]:
    found = []
    for name, quantity in amounts.items():
        try:
            quantities.parse_quantity(name, quantity, round_up=True)
        except ValueError as error:
            found.append(FieldError(f"{at}.{name}", str(error)))
    return found
