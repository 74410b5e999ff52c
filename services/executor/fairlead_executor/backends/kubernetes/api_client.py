"""Requests to the API server: raw bodies by aiohttp, credentials by kubernetes-asyncio.

kubernetes-asyncio reads kubeconfigs, runs their credential plug-ins and renews the tokens of
service accounts. Its own calls take three to six times the processor time of these (1.0 to 2.0 ms
for a pod, 0.33 ms here), so it makes none.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from kubernetes_asyncio import config
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config.config_exception import ConfigException

from fairlead_common.domain.errors import WorldError
from fairlead_executor.backends.kubernetes.domain.api_objects import decode_status
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
CONNECT_S_MAX: Final = 10.0
LINE_BYTES_MAX: Final = 2**22
"""A line of a watch is one object; etcd refuses those above 1.5 MiB."""
RENEWAL_S_MIN: Final = 5.0
SHUTDOWN_S: Final = 0.25
"""aiohttp does not wait until TLS connections are closed; its documentation recommends this."""

_logger = logging.getLogger("fairlead.executor")


class ApiUnavailable(Exception):
    """The API server did not answer, or cannot answer now. Whether it received the request is not
    known."""


class ApiRefused(Exception):
    """The API server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"HTTP status {code}: {message}")
        self.code = code


class Response(msgspec.Struct, frozen=True):
    """An answer of the API server."""

    code: int
    body: bytes


class ApiClient:
    """A connection to one API server. Created by `open`."""

    def __init__(self, settings: KubernetesSettings, monotonic_s: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._configuration = Configuration()
        self._session: aiohttp.ClientSession | None = None
        self._renewed_s = monotonic_s()
        self._renewal = asyncio.Lock()

    @classmethod
    async def open(
        cls, settings: KubernetesSettings, monotonic_s: Callable[[], float]
    ) -> "ApiClient":
        """Raises `WorldError` if there are no credentials."""
        client = cls(settings, monotonic_s)
        await client._connect()
        return client

    @property
    def url(self) -> str:
        """The address of the API server."""
        return str(self._configuration.host)

    def describe_failure(self, error: ApiUnavailable | ApiRefused) -> str:
        """Why the cluster cannot be read, and what to do."""
        match error:
            case ApiRefused(code=401):
                todo = "renew the credentials of the kubeconfig; try them with: kubectl auth whoami"
            case ApiRefused(code=403):
                todo = "apply deploy/kubernetes/rbac.yaml, and use its service account"
            case ApiRefused(code=404):
                todo = "`deviceResources` needs resource.k8s.io/v1, which Kubernetes has since 1.34"
            case _:
                todo = "check the address of the kubeconfig and the network"
        return f"the cluster at {self.url} cannot be read: {error}; {todo}"

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(SHUTDOWN_S)

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        parameters: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Response:
        """The answer, also if it is an error. Raises `ApiUnavailable`."""
        data = None if body is None else msgspec.json.encode(body)
        response = await self._send(method, path, data, parameters, content_type)
        if response.code == 401 and await self._renew_credentials():
            response = await self._send(method, path, data, parameters, content_type)
        return response

    async def get(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        """The body of an object or list. Raises `ApiRefused`, `ApiUnavailable`."""
        response = await self.request("GET", path, parameters=parameters)
        if response.code == 200:
            return response.body
        refused = ApiRefused(response.code, decode_status(response.body).message)
        if response.code == 429 or response.code >= 500:
            raise ApiUnavailable(f"{self.url}: {refused}")
        raise refused

    @asynccontextmanager
    async def stream(
        self, path: str, parameters: Mapping[str, str], silence_s_max: float | None
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of an answer as it arrives. Raises `ApiRefused`, `ApiUnavailable`.

        `silence_s_max`: the longest time without a byte; None: any.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S_MAX, sock_read=silence_s_max
        )
        session = self._open_session()
        try:
            async with session.get(
                self.url + path, params=parameters, headers=await self._headers(), timeout=timeout
            ) as response:
                if response.status != 200:
                    message = decode_status(await response.read()).message
                    if response.status == 401:
                        await self._renew_credentials()
                    raise ApiRefused(response.status, message)
                yield response.content
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # ValueError: a line longer than the buffer.
            raise ApiUnavailable(f"{self.url}: {_describe(error)}") from error

    async def _send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        parameters: Mapping[str, str] | None,
        content_type: str,
    ) -> Response:
        headers = {**await self._headers(), "Content-Type": content_type}
        total_s = self._settings.request_timeout_s
        try:
            async with self._open_session().request(
                method,
                self.url + path,
                data=data,
                params=parameters,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=total_s, sock_connect=CONNECT_S_MAX),
            ) as response:
                return Response(response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnavailable(f"{self.url}: {_describe(error)}") from error

    def _open_session(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the client is open"
        return self._session

    async def _headers(self) -> dict[str, str]:
        # This also reads the token of a service account again, once a minute.
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        return {"Authorization": token, "Accept": JSON} if token else {"Accept": JSON}

    async def _renew_credentials(self) -> bool:
        """Read the credentials again; whether they were, by this or a concurrent call."""
        before_s = self._renewed_s
        async with self._renewal:
            if self._renewed_s != before_s:
                return True
            if self._monotonic_s() - self._renewed_s < RENEWAL_S_MIN:
                return False
            self._renewed_s = self._monotonic_s()
            _logger.info("the API server refused the credentials; they are read again")
            old = self._session
            await self._connect()
            if old is not None:
                await old.close()
            return True

    async def _connect(self) -> None:
        self._configuration = await _load_configuration(self._settings)
        connector = aiohttp.TCPConnector(
            limit=self._settings.requests_in_flight + 8, ssl=_ssl_context(self._configuration)
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            read_bufsize=LINE_BYTES_MAX,
            proxy=_find_proxy(self._configuration),
        )


async def _load_configuration(settings: KubernetesSettings) -> Any:  # `Any`: without annotations
    """The address and credentials. Raises `WorldError`."""
    configuration = Configuration()
    in_cluster = not settings.kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ
    path = settings.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    where = "the service account of this pod" if in_cluster else f"the kubeconfig {path}"
    if settings.kubeconfig and not await asyncio.to_thread(_is_file, path):
        raise WorldError(
            f"{where} does not exist; set `kubeconfig` of FAIRLEAD_KUBERNETES to a file that"
            " kubectl accepts"
        )
    try:
        if in_cluster:
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(
                config_file=path,
                context=settings.context or None,
                client_configuration=configuration,
                persist_config=False,
            )
    except (ConfigException, OSError, ValueError) as error:
        raise WorldError(
            f"{where} gives no credentials: {error}; try it with: kubectl auth whoami"
        ) from error
    return configuration


def _is_file(path: str) -> bool:
    return Path(path).expanduser().is_file()


def _find_proxy(configuration: Any) -> str | None:  # `Any`: it has no annotations
    """`proxy-url` of the kubeconfig, else the proxy of the environment for this address.

    It is found once: a session with `trust_env` reads the environment and a netrc file again for
    each request, which was a seventh of the processor time of the executor.
    """
    if configuration.proxy:
        return str(configuration.proxy)
    address = urlsplit(configuration.host)
    if proxy_bypass(address.netloc.rpartition("@")[2]):
        return None
    return getproxies().get(address.scheme)


def _ssl_context(configuration: Any) -> ssl.SSLContext:  # `Any`: it has no annotations
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
