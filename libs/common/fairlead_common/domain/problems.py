"""The problem types, with their meaning and what to do, and the exception that refuses a request.

The pages of `/problems/` and of `docs/problems/` are made from this table.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError


class ProblemType(msgspec.Struct, frozen=True):
    """One type. `means` and `do` are paragraphs, in which `code` stands between backticks."""

    status: int
    title: str
    means: tuple[str, ...]
    do: tuple[str, ...]


TYPES: Final[Mapping[str, ProblemType]] = MappingProxyType(
    {
        "malformed": ProblemType(
            400,
            "The request cannot be read",
            (
                "The request is not valid HTTP, its body is not valid JSON (or is incomplete, or"
                " has a duplicate key), a compressed body cannot be decompressed, a position or"
                " event id is not valid, or the `Host` header is not one of the server's names.",
            ),
            (
                "`detail` says where parsing stopped. Send UTF-8 JSON that a library has encoded."
                " Pass positions, cursors and event ids on unchanged.",
                "If `detail` is about the `Host` header, call the server by one of the names in"
                " its setting `hosts`, or ask the operator to add the name that you use.",
            ),
        ),
        "unauthenticated": ProblemType(
            401,
            "Authentication is required",
            (
                "The request has no credentials, or they are unknown, expired or revoked. The"
                " response does not reveal which names or tokens exist.",
            ),
            (
                "Send `Authorization: Bearer <token>`. On the machine that runs Fairlead `fairlead"
                " token show` prints one; `fairlead token create` creates more. The clients read"
                " `FAIRLEAD_TOKEN`. In a browser, open a link that `fairlead token link` prints.",
                "A token of an OpenID provider must be from an issuer in the setting `oidc`,"
                " contain its audience, not be expired, and be signed by a key that the provider"
                " publishes.",
            ),
        ),
        "forbidden": ProblemType(
            403,
            "You are not permitted to do this",
            (
                "The server has identified the caller, but neither a role nor the queue's"
                " `permissions` permit this; or the scope of the token does not include it; or a"
                " browser session was used from a page that is not Fairlead's.",
                "Or a quota is exhausted: the queue, or the whole installation, would have more"
                " live jobs, or more bytes of jobs, than the quota permits. Nothing was done.",
            ),
            (
                "`detail` names what is needed. Roles are bound to users and groups in the setting"
                " `roles`; a queue's `permissions` are changed by operators, with `PUT"
                " /api/v1/queues/{queue}`.",
                "For a quota, `detail` names the setting, the limit and the usage. Wait until jobs"
                " have ended, or cancel some; operators raise the limit in the setting `quotas`.",
            ),
        ),
        "not-found": ProblemType(
            404,
            "Not found",
            (
                "No job, queue, job set or page has this name, or it belongs to a queue that the"
                " caller is not permitted to view. Both have the same response, so that names stay"
                " private.",
            ),
            (
                "Check the name. A view can lag a moment behind a submission: pass the `position`"
                " of the response to your submission as `?after=`, and the read waits until the"
                " view has reached it.",
                "If some ids of an action are not found, `errors` names them; the action was"
                " applied to the others.",
            ),
        ),
        "method-not-allowed": ProblemType(
            405,
            "Method not allowed",
            ("The path exists, but does not support this method.",),
            ("The header `Allow` and `/openapi.json` list the methods that it supports.",),
        ),
        "too-slow": ProblemType(
            408,
            "The request took too long to arrive",
            (
                "The head of the request was not complete in time, or its body arrived more slowly"
                " than the server requires. The limits are in the setting `connections`.",
            ),
            (
                "Send it again over a faster connection, or in smaller requests. If the body comes"
                " from a slow source, read the source to its end before you send the request.",
            ),
        ),
        "conflict": ProblemType(
            409,
            "The request conflicts with the current state",
            (
                "An object with this name exists already, or the `clientId` was used for something"
                " different before. Or the present state does not permit the request: the queue to"
                " delete has live jobs, the group has ended, or the object was changed meanwhile."
                " `detail` names the cause. Nothing was done.",
            ),
            (
                "Read the current state and decide. To change a queue or a webhook use `PUT`. To"
                " submit a different job give it a different `clientId`; to repeat a submission"
                " send exactly the same job.",
            ),
        ),
        "precondition-failed": ProblemType(
            412,
            "The object has changed since you read it",
            ("The `ETag` in `If-Match` is not the one of the newest version.",),
            ("Read the object again, apply your change, and send it with the new `ETag`.",),
        ),
        "too-large": ProblemType(
            413,
            "The request is too large",
            (
                "The decompressed body is larger than the server accepts, or contains more jobs or"
                " ids than are allowed in one request. The rest of the body was not read.",
            ),
            (
                "Send the jobs in several requests; the clients do this automatically. `detail`"
                " names the limit, which is in the setting `limits`.",
            ),
        ),
        "unsupported-media-type": ProblemType(
            415,
            "The content type is not supported",
            ("This call does not support the `Content-Type` or `Content-Encoding`.",),
            (
                "`detail` names what it supports. Bodies are `application/json` unless the call"
                " says otherwise.",
            ),
        ),
        "invalid": ProblemType(
            422,
            "The request is not valid",
            (
                "The request can be parsed, but a field has a value that is not valid. `errors`"
                " lists every error that was found, with a JSON pointer to the field. Nothing was"
                " done.",
            ),
            (
                "Correct everything in `errors` and send the request again. `?dryRun=true`"
                " validates a submission without accepting it.",
            ),
        ),
        "too-many-requests": ProblemType(
            429,
            "Too many requests",
            (
                "The caller has exceeded its request rate limit, or has too many concurrent"
                " requests, including streams and long polls; or too many invalid credentials were"
                " sent from one address.",
            ),
            (
                "Wait for the number of seconds in `Retry-After`. The headers `RateLimit-Policy`"
                " and `RateLimit` of every response show how much of the limit is left. Submit in"
                " batches: one request accepts thousands of jobs. The limits are in the setting"
                " `requests`.",
            ),
        ),
        "head-too-large": ProblemType(
            431,
            "The head of the request is too large",
            ("The URL and headers together are larger than the server accepts.",),
            ("Send long lists in the body, and send fewer cookies.",),
        ),
        "internal": ProblemType(
            500,
            "Internal error",
            ("Fairlead has a defect. It is not known whether the request took effect.",),
            (
                "Submissions whose jobs have a `clientId` can be repeated safely. Report the"
                " `instance` to the operator: the server's log has the details under this id.",
            ),
        ),
        "unavailable": ProblemType(
            503,
            "A dependency is unavailable",
            (
                "The log or the database is unavailable, a view lags too far, or the server is"
                " overloaded or shutting down. Whether a change took effect is not known unless"
                " `detail` says so.",
            ),
            (
                "Try again after the number of seconds in `Retry-After`. This is safe for jobs"
                " with a `clientId`, and the clients do this automatically. `/readyz` names what"
                " is unavailable.",
            ),
        ),
    }
)


class Problem(Exception):
    """A refused request: `slug` is a key of `TYPES`. `web.problem_documents` turns it into a
    response, with `headers` and, where given, `Retry-After`.
    """

    def __init__(
        self,
        slug: str,
        detail: str,
        field_errors: Sequence[FieldError] = (),
        *,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.field_errors = list(field_errors)
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})
