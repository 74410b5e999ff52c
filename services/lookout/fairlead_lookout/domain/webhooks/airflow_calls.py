"""The calls of Airflow's API for an event, and what its answers mean.

The API is that of Airflow 3 (`/api/v2`, tokens from `/auth/token`).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from fairlead_common.domain import timestamps
from fairlead_lookout.domain.webhooks.webhook_types import AirflowTarget

CONCURRENCY_MAX: Final = 8
ANSWER_BYTES_MAX: Final = 1024 * 1024
ASSETS_MAX: Final = 100
EVENTS_MAX: Final = 100
"""Earlier events of an asset among which an event is searched before it is created again."""
CLOCK_MS_MAX: Final = 600_000
"""How far the clock of Airflow, which gives events of assets their times, can be behind."""
EVENT_KEY: Final = "fairleadEvent"
"""The field of an asset event that has the id of the event."""
DETAIL_CHARACTERS_MAX: Final = 200
SIGN_IN_PATH: Final = "/auth/token"
API: Final = "/api/v2"
EXISTS: Final = 409
_NOT_AIRFLOW_3: Final = (
    "No API of Airflow 3 (/api/v2) answers at this URL. Check the URL, which has to reach Airflow"
    " without a page to sign in, and the version of Airflow."
)
_INVALID_TOKEN: Final = "Invalid JWT token"
_encode: Final = msgspec.json.Encoder().encode
_RUN_PREFIX: Final = "fairlead__"


class AirflowRefusal(Exception):
    """Airflow did not accept a call. `is_final`: it never will."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final
        self.status: int | None = None
        self.retry_after_s = 0

    def note_answer(self, status: int, retry_after_s: int) -> None:
        """Note which answer is the reason. A refusal is not a success, whatever its status."""
        self.status = None if 200 <= status < 300 else status
        self.retry_after_s = retry_after_s


class Call(NamedTuple):
    """A request to Airflow: its path below the URL of the webhook, and its body."""

    method: str
    path: str
    body: bytes = b""


class ReceivedEvent(msgspec.Struct, frozen=True):
    """A delivery as it is stored: the body of the format `fairlead`."""

    type: str
    timestamp: str
    data: dict[str, Any]  # `Any`: JSON


decode_event: Final = msgspec.json.Decoder(ReceivedEvent).decode


def make_sign_in(username: str, password: str) -> Call:
    """Asks for a token."""
    return Call("POST", SIGN_IN_PATH, _encode({"username": username, "password": password}))


def make_dag_read(dag: str) -> Call:
    """Whether a DAG exists: what a test asks instead of starting it."""
    return Call("GET", f"{API}/dags/{quote(dag, safe='')}")


def make_run(dag: str, message_id: str, event: ReceivedEvent) -> Call:
    """Starts a run of a DAG. Its id follows from the event, so a second call starts no second."""
    body = {
        "dag_run_id": f"{_RUN_PREFIX}{message_id}",
        "logical_date": None,
        "conf": msgspec.to_builtins(event),
    }
    return Call("POST", f"{API}/dags/{quote(dag, safe='')}/dagRuns", _encode(body))


def make_asset_search(uri: str) -> Call:
    """Asks for the assets whose URI contains this one."""
    return Call("GET", f"{API}/assets?{urlencode({'uri_pattern': uri, 'limit': ASSETS_MAX})}")


def make_event_search(asset_id: int, since: str) -> Call:
    """Asks for the events of an asset since about a time, the newest first."""
    since_ms = timestamps.parse_rfc3339(since) - CLOCK_MS_MAX
    query = urlencode(
        {
            "asset_id": asset_id,
            "timestamp_gte": timestamps.rfc3339(since_ms),
            "order_by": "-timestamp",
            "limit": EVENTS_MAX,
        }
    )
    return Call("GET", f"{API}/assets/events?{query}")


def make_asset_event(asset_id: int, message_id: str, event: ReceivedEvent) -> Call:
    """Creates an event of an asset."""
    extra = {EVENT_KEY: message_id, **msgspec.to_builtins(event)}
    return Call("POST", f"{API}/assets/events", _encode({"asset_id": asset_id, "extra": extra}))


def check_dag(content: bytes, dag: str) -> None:
    """Raises `AirflowRefusal` if this answer says that the DAG is paused."""
    if _decode_object(content).get("is_paused") is True:
        raise AirflowRefusal(
            f"DAG {dag} is paused in Airflow: events create runs, which wait until it is unpaused."
        )


def read_token(content: bytes) -> str:
    """The token in the answer to a sign-in. Raises `AirflowRefusal`."""
    token = _decode_object(content).get("access_token")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise AirflowRefusal(f"The answer of {SIGN_IN_PATH} has no token. {_NOT_AIRFLOW_3}")
    return token


def find_asset(content: bytes, uri: str) -> int:
    """The id of the asset with this URI. Raises `AirflowRefusal`."""
    for asset in _read_objects(content, "assets"):
        number = asset.get("id")
        if asset.get("uri") == uri and isinstance(number, int):
            return number
    raise AirflowRefusal(
        f"Airflow has no asset {uri}, or the user is not permitted to view it. It exists when a DAG"
        " of this Airflow names it; compare the URI."
    )


def has_event(content: bytes, message_id: str) -> bool:
    """Whether the event is among these events of an asset. Raises `AirflowRefusal`."""
    for found in _read_objects(content, "asset_events"):
        extra = found.get("extra")
        if isinstance(extra, dict) and extra.get(EVENT_KEY) == message_id:
            return True
    return False


def check_sign_in(status: int, content: bytes) -> None:
    """Raises `AirflowRefusal` unless the sign-in succeeded."""
    if 200 <= status < 300:
        return
    if status in (401, 403):
        raise AirflowRefusal(
            "Airflow refuses the user name or the password. Give others with `fairlead webhook"
            " update NAME --username USER --password-file FILE`."
        )
    if status in (404, 405):
        raise AirflowRefusal(f"Airflow has no {SIGN_IN_PATH}. {_NOT_AIRFLOW_3}")
    if status in (400, 415, 422):
        raise AirflowRefusal(
            "Airflow does not sign in by user name and password here. Give the webhook a token."
            + _describe(content)
        )
    raise AirflowRefusal(_explain_other(status, content))


def refuses_token(status: int, content: bytes) -> bool:
    """Whether the token is expired (401), or signed with another key (403 of Airflow 3.3)."""
    if status == 403:
        return _decode_object(content).get("detail") == _INVALID_TOKEN
    return status == 401


def check_answer(status: int, content: bytes, target: AirflowTarget, *, about_dag: bool) -> None:
    """Raises `AirflowRefusal` unless the call succeeded. `about_dag`: or else about the asset."""
    if about_dag and status == EXISTS:
        return
    if 200 <= status < 300:
        # Airflow answers unknown paths with its page.
        if not _decode_object(content):
            raise AirflowRefusal(_NOT_AIRFLOW_3)
        return
    if refuses_token(status, content):
        raise AirflowRefusal(
            "Airflow refuses the token. It has expired, or is not one of this Airflow. Give a new"
            " one with `fairlead webhook update NAME --token-file FILE`, or a user and a password,"
            " whose tokens are renewed."
        )
    what = f"the DAG {target.dag}" if about_dag else f"the asset {target.asset}"
    detail = _decode_object(content).get("detail")
    text = detail if isinstance(detail, str) else ""
    match status:
        case 403:
            needed = "to create its runs" if about_dag else "to view it and create its events"
            raise AirflowRefusal(
                f"Airflow does not permit this user to use {what}. Permit the user {needed}."
            )
        case 404 if about_dag and target.dag is not None and target.dag in text:
            raise AirflowRefusal(
                f"Airflow has no DAG {target.dag}. Check its id, and whether Airflow lists it."
            )
        case 404 if not about_dag and "Asset" in text:
            raise AirflowRefusal(f"Airflow has no {what.removeprefix('the ')}.")
        case 404 | 405:
            raise AirflowRefusal(_NOT_AIRFLOW_3)
        case 400 if "import errors" in text:
            raise AirflowRefusal(f"{what[0].upper() + what[1:]} has import errors in Airflow.")
        case 400 | 422:
            raise AirflowRefusal(
                f"Airflow does not accept the event for {what}.{_describe(content)}"
                " When it does, replay the delivery.",
                is_final=True,
            )
        case _:
            raise AirflowRefusal(_explain_other(status, content))


def _explain_other(status: int, content: bytes) -> str:
    if 300 <= status < 400:
        return f"Status {status} from Airflow: redirects are not followed. Check the URL."
    return f"Status {status} from Airflow.{_describe(content)}"


def _describe(content: bytes) -> str:
    detail = _decode_object(content).get("detail")
    if detail is None:
        return ""
    if isinstance(detail, list):
        text = "; ".join(_describe_error(error) for error in detail)
    else:
        text = detail if isinstance(detail, str) else _encode(detail).decode()
    return f" It says: {text[:DETAIL_CHARACTERS_MAX]}"


def _describe_error(error: object) -> str:
    """An error of validation, without the wrong input, which can be the body with the password."""
    if not isinstance(error, dict):
        return "an error"
    place = error.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else "the request"
    return f"{where}: {error.get('msg', 'is not valid')}"


def _decode_object(content: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_objects(content: bytes, name: str) -> list[Mapping[str, Any]]:
    found = _decode_object(content).get(name)
    if not isinstance(found, list):
        raise AirflowRefusal(_NOT_AIRFLOW_3)
    return [each for each in found if isinstance(each, dict)]
