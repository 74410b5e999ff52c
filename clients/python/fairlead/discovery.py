"""Finds the server to use, and its token.

The first of these that is set: the explicit argument, `FAIRLEAD_SERVER`, the data folder in
`FAIRLEAD_DATA`, the current context of the configuration file, the default data folder of
`fairlead up`. A token is sent only to the server that it belongs to.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from fairlead.errors import NoServer, NotConfigured

ADDRESS_FILE: Final = "address"
TOKEN_FILE: Final = "token"
_UNSENDABLE: Final = re.compile(r"[^!-~]")
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a server. `source`: where the address comes from, for messages.

    `is_supervised`: `fairlead up` restarts it when it ends, so that it is worth waiting for it.
    """

    url: str
    token: str | None
    source: str
    is_supervised: bool = False

    def __post_init__(self) -> None:
        """Raises `NotConfigured` for a token that is not valid in an HTTP header; the message does
        not contain the token.
        """
        if self.token is not None and _UNSENDABLE.search(self.token):
            raise NotConfigured(
                f"The token for {self.url} has characters that are not valid in a token. Check that"
                " no line break or space was copied with it."
            )

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return urlsplit(self.url).hostname in LOOPBACK

    @property
    def is_encrypted(self) -> bool:
        """Whether its connections use TLS."""
        return urlsplit(self.url).scheme == "https"


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server of the configuration file."""

    server: str
    token: str | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`config.yaml`: either one `server` and `token`, or named `contexts` and the `current` one."""

    server: str | None = None
    token: str | None = None
    current: str | None = None
    contexts: dict[str, Context] = {}


def config_file(environment: Mapping[str, str]) -> Path:
    """The path of the configuration file, whether it exists or not."""
    base = environment.get("XDG_CONFIG_HOME") or str(_home_folder(environment) / ".config")
    return Path(base) / "fairlead" / "config.yaml"


def data_folder(environment: Mapping[str, str]) -> Path:
    """The data folder of `fairlead up`: `FAIRLEAD_DATA`, or the default one."""
    if named := environment.get("FAIRLEAD_DATA"):
        return Path(named)
    base = environment.get("XDG_DATA_HOME") or str(_home_folder(environment) / ".local" / "share")
    return Path(base) / "fairlead"


def find_server(
    environment: Mapping[str, str],
    *,
    server: str | None = None,
    token: str | None = None,
    context: str | None = None,
) -> Server:
    """The server to use. Raises `NoServer` with the places that were searched.

    `context`: a context of the configuration file, which overrides `current` and the environment.
    """
    token = (token or environment.get("FAIRLEAD_TOKEN") or "").strip() or None
    if context is not None:
        file = config_file(environment)
        in_context = _find_in_context(file, read_config(file) or Config(), context)
        return _with_token(in_context, token, environment)
    named = server or environment.get("FAIRLEAD_SERVER")
    if named:
        url = _check_url(named, "FAIRLEAD_SERVER" if not server else "the server given")
        explicit = Server(url=url, token=None, source="FAIRLEAD_SERVER" if not server else "given")
        return _with_token(explicit, token, environment)
    local = _in_data_folder(data_folder(environment))
    if local is not None and environment.get("FAIRLEAD_DATA"):
        return _with_token(local, token, environment)
    found = _find_in_config(environment) or local
    if found is not None:
        return _with_token(found, token, environment)
    raise NoServer(
        "No server is configured. Start one on this machine with `fairlead up`, or set"
        f" FAIRLEAD_SERVER (and FAIRLEAD_TOKEN), or write {config_file(environment)}. There is no"
        f" {data_folder(environment) / ADDRESS_FILE} either."
    )


def _with_token(server: Server, token: str | None, environment: Mapping[str, str]) -> Server:
    """The server with this token, its own token, or else the known token of its address."""
    token = token or server.token or _token_for(server.url, environment)
    return msgspec.structs.replace(server, token=token)


def _token_for(url: str, environment: Mapping[str, str]) -> str | None:
    for known in (_find_in_config(environment), _in_data_folder(data_folder(environment))):
        if known is not None and known.url == url and known.token is not None:
            return known.token
    return None


def find_in_data_folder(folder: Path) -> Server:
    """The server that runs on this data folder. Raises `NoServer`."""
    found = _in_data_folder(folder)
    if found is None:
        raise NoServer(
            f"No server runs on {folder}. Start one with `fairlead up --data {folder}`, then try"
            " again."
        )
    return found


def read_token(folder: Path) -> str:
    """The token that the first `fairlead up` on this folder made. Raises `NotConfigured`."""
    file = folder / TOKEN_FILE
    try:
        return file.read_text(errors="replace").strip()
    except FileNotFoundError:
        raise NotConfigured(
            f"There is no {file}: `fairlead up` creates it on its first start."
        ) from None
    except OSError as error:
        raise NotConfigured(f"{file} cannot be read: {error.strerror}.") from error


def _in_data_folder(folder: Path) -> Server | None:
    try:
        url = (folder / ADDRESS_FILE).read_text(errors="replace").strip()
        token = (folder / TOKEN_FILE).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotConfigured(f"The data folder {folder} cannot be read: {error.strerror}") from error
    return Server(
        url=_check_url(url, str(folder / ADDRESS_FILE)),
        token=token,
        source=f"data folder {folder}",
        is_supervised=True,
    )


def read_config(file: Path) -> Config | None:
    """The configuration file, if there is one. Raises `NotConfigured`."""
    try:
        return _decode(file, file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotConfigured(f"{file} cannot be read: {error.strerror}") from error


def _find_in_config(environment: Mapping[str, str]) -> Server | None:
    file = config_file(environment)
    config = read_config(file)
    if config is None:
        return None
    if config.current is not None:
        return _find_in_context(file, config, config.current)
    if config.server is None:
        return None
    return Server(
        url=_check_url(config.server, f"{file}: server"), token=config.token, source=f"{file}"
    )


def find_context(file: Path, config: Config, name: str) -> Context:
    """A context of the configuration. Raises `NotConfigured` if it does not exist."""
    context = config.contexts.get(name)
    if context is None:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise NotConfigured(f"{file}: no context is called {name!r} (known: {known})")
    return context


def _find_in_context(file: Path, config: Config, name: str) -> Server:
    context = find_context(file, config, name)
    url = _check_url(context.server, f"{file}: contexts.{name}.server")
    return Server(url=url, token=context.token, source=f"context {name} of {file}")


def _decode(file: Path, text: bytes) -> Config:
    import yaml  # late: most calls need no YAML

    try:
        return msgspec.convert(yaml.safe_load(text) or {}, Config)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise NotConfigured(f"{file} is not valid: {error}") from error


def _check_url(url: str, where: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = bool(parts.scheme in ("http", "https") and parts.hostname)
        is_address &= parts.port != 0 and not re.search(r"[\s\0-\x1f]", url)
    except ValueError:  # unbalanced brackets, or an invalid port
        is_address = False
    if not is_address:
        raise NotConfigured(f"{where}: {url!r} is not a valid http:// or https:// address")
    return url.rstrip("/")


def _home_folder(environment: Mapping[str, str]) -> Path:
    return Path(environment["HOME"]) if environment.get("HOME") else Path.home()
