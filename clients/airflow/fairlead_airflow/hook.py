"""The connection of Airflow to a Fairlead server."""

import logging
from typing import Any, Final, NamedTuple

from airflow.sdk import BaseHook, Connection

from fairlead import AsyncClient, Client, FairleadError

DEFAULT_CONNECTION: Final = "fairlead_default"


class ServerAddress(NamedTuple):
    """Which server, and with which token."""

    url: str
    token: str | None


class FairleadHook(BaseHook):
    """Clients of the server of a connection of the type `fairlead`: its host and its token."""

    conn_name_attr = "fairlead_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "fairlead"
    hook_name = "Fairlead"

    def __init__(self, fairlead_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.fairlead_conn_id = fairlead_conn_id

    def read_address(self) -> ServerAddress:
        """The server of the connection, for code that is not asynchronous."""
        return _parse_connection(self.get_connection(self.fairlead_conn_id))

    async def read_address_async(self) -> ServerAddress:
        """The server of the connection, for triggers."""
        return _parse_connection(await self.aget_connection(self.fairlead_conn_id))

    def get_conn(self) -> Client:
        """A client, to be closed after use."""
        address = self.read_address()
        return Client(address.url, token=address.token)

    async def get_async_conn(self) -> AsyncClient:
        """A client for asyncio, to be closed after use."""
        return open_client(await self.read_address_async())

    def test_connection(self) -> tuple[bool, str]:
        """Whether the server answers and accepts the token: what the button "Test" shows."""
        try:
            with self.get_conn() as client:
                count = sum(1 for _ in client.queues())
        except FairleadError as error:
            return False, str(error)
        return True, f"{client.server.url} answers; you can see {count} queues."


def open_client(address: ServerAddress) -> AsyncClient:
    """A client of this server for asyncio; it logs no line per request into the logs of tasks."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    return AsyncClient(address.url, token=address.token)


def _parse_connection(connection: Connection) -> ServerAddress:
    """The address in a connection: a URL as its host, or host, port and schema (https).

    Raises `ValueError` if the connection has no host.
    """
    host = (connection.host or "").strip()
    if not host:
        raise ValueError(
            f"The connection {connection.conn_id} has no host. Set it to the address of the"
            " Fairlead server, for example https://fairlead.example.org."
        )
    if "://" not in host:
        host = f"{connection.schema or 'https'}://{host}"
        if connection.port:
            host = f"{host}:{connection.port}"
    token: Any = connection.password
    return ServerAddress(host, token or None)
