"""Settings of a service: one struct, filled from defaults, a YAML file and the environment.

The environment has priority over the file. A field `database_url` is the key `databaseUrl` in the
file and `FAIRLEAD_DATABASE_URL` in the environment, where lists and mappings are written as JSON. A
service derives its own struct from `Settings`; unknown keys in the file are errors. One file can
serve several services: keys of only one service are then in a section with its name (`scheduler:`).
"""

import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import yaml

from fairlead_common.domain import permissions
from fairlead_common.domain.errors import FieldError
from fairlead_common.service import access_settings, yaml_loader

SECTIONS: Final = ("submit", "scheduler", "executor", "lookout")
SHARED: Final = ("priorityClasses",)
"""Settings that only some services read; the others ignore them."""


class SettingsError(Exception):
    """Invalid settings; `errors` has every error, with the name of its setting."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{error.pointer}: {error.detail}" for error in errors))
        self.errors = errors


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The settings that every service has.

    `log_url`: `postgres://...`, or `kafka://...` or `kafka+tls://...` as docs/log.md describes.
    `signing_key`: the secret with which services sign short-lived tokens for one another.
    `secrets_key`: the key that encrypts secret values of jobs, the same for submit and executors;
    of several, separated by commas, the first encrypts and all decrypt. `hosts`: the accepted names
    in the `Host` header. Callers: `oidc` (providers whose tokens are accepted), `password_file`
    (lines of `fairlead_common.web.auth.passwords`), and with `anonymous` requests without
    credentials, which then have `anonymous_roles` (off by default; for trusted networks only).
    `roles` binds users and groups to roles. `requests` and `connections` limit one caller and one
    connection. `disk`: a folder on the disk that holds the log and the database, if that is a disk
    of this machine: nothing is written while it is full.
    """

    log_url: str = "postgresql://127.0.0.1:5432/fairlead"
    database_url: str = "postgresql://127.0.0.1:5432/fairlead"
    redis_url: str = "redis://127.0.0.1:6379/0"
    http_host: str = "127.0.0.1"
    http_port: int = 8080
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    anonymous: bool = False
    anonymous_roles: tuple[permissions.Role, ...] = (permissions.Role.ADMIN,)
    password_file: str = ""
    oidc: tuple[access_settings.Issuer, ...] = ()
    roles: tuple[access_settings.RoleBinding, ...] = ()
    requests: access_settings.RequestLimits = access_settings.RequestLimits()
    connections: access_settings.ConnectionLimits = access_settings.ConnectionLimits()
    signing_key: str = ""
    secrets_key: str = ""
    skip_records: tuple[str, ...] = ()
    log_level: str = "INFO"
    data: str = ""
    disk: str = ""


S = TypeVar("S", bound=Settings)

FILE_VARIABLE = "FAIRLEAD_SETTINGS"


def load(kind: type[S], environment: Mapping[str, str]) -> S:
    """Load settings of this type. Raises `SettingsError` with every error."""
    values: dict[str, object] = {}
    errors: list[FieldError] = []
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    if file := environment.get(FILE_VARIABLE):
        section = kind.__module__.partition(".")[0].removeprefix("fairlead_")
        values.update(_read(Path(file), section, known, errors))
    for field in msgspec.structs.fields(kind):
        name = f"FAIRLEAD_{field.name.upper()}"
        if name not in environment:
            continue
        try:
            values[field.encode_name] = _from_text(environment[name], field.type)
        except msgspec.MsgspecError as error:
            errors.append(FieldError(name, str(error)))
    if errors:
        raise SettingsError(errors)
    try:
        made = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise SettingsError([FieldError("settings", str(error))]) from None
    if errors := access_settings.find_errors(made.oidc, has_signing_key=bool(made.signing_key)):
        raise SettingsError(errors)
    return made


def _read(
    file: Path, section: str, known: Mapping[str, object], errors: list[FieldError]
) -> dict[str, object]:
    try:
        content = yaml_loader.load(file.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        errors.append(FieldError(str(file), f"cannot be read: {error}"))
        return {}
    if not isinstance(content, dict):
        errors.append(FieldError(str(file), "is not a mapping of settings"))
        return {}
    # `executor` is a section where it is a mapping, and else a setting of the executor.
    sections = {name: of for name in SECTIONS if isinstance(of := content.get(name), dict)}
    own = sections.get(section, {})
    if section in content and section not in {*sections, *known}:
        errors.append(FieldError(f"{file}: {section}", "is not a mapping of settings"))
    top = [(name, value) for name, value in content.items() if name not in sections]
    values: dict[str, object] = {}
    for name, value in [*top, *own.items()]:
        if name not in known:
            if name not in (*SECTIONS, *SHARED) or name in own:
                errors.append(FieldError(f"{file}: {name}", "is not a setting of this service"))
            continue
        try:
            msgspec.convert(value, known[name])
        except msgspec.ValidationError as error:
            errors.append(FieldError(f"{file}: {name}", str(error)))
        values[name] = value
    return values


def _from_text(text: str, kind: object) -> object:
    if kind is str or (str in typing.get_args(kind) and not text.startswith(("{", "["))):
        return text
    if typing.get_origin(kind) is typing.Literal:
        return text
    if kind is bool:
        return msgspec.convert(text, bool, strict=False)
    return msgspec.json.decode(text, type=kind)
