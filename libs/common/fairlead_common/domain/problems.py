"""The types of problems: what each means, and what to do about it. The pages of `/problems/` and
of `docs/problems/` are made from this table.
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
                "The request is no HTTP, its body is no JSON (or breaks off, or has a key twice), a"
                " compressed body cannot be inflated, a position or event id is none that this"
                " server gives, or the `Host` header is not one of the server's names.",
            ),
            (
                "`detail` says where reading stopped. Send UTF-8 JSON; make it with a library, not"
                " by hand. Pass positions, cursors and event ids on as they came.",
                "If it is about the `Host` header, call the server by one of the names in its"
                " setting `hosts`, or have the operator add yours.",
            ),
        ),
        "unauthenticated": ProblemType(
            401,
            "Who are you?",
            (
                "No credentials were sent, or they are not known, have expired, or were withdrawn."
                " Whatever the reason, it is not said which names or tokens exist.",
            ),
            (
                "Send `Authorization: Bearer <token>`. On the machine that runs Fairlead `fairlead"
                " token show` prints one; `fairlead token create` makes more. The clients read"
                " `FAIRLEAD_TOKEN`. In a browser, open a link that `fairlead token link` prints.",
                "A token of an OpenID provider must be of an issuer in the setting `oidc`, name its"
                " audience, not have expired, and be signed by a key that the provider publishes.",
            ),
        ),
        "forbidden": ProblemType(
            403,
            "You may not do this",
            (
                "The server knows who asks, but neither a role nor the queue's `permissions` let"
                " that caller do this; or the token is scoped to less than its owner may; or a"
                " browser's session was used from a page that is not Fairlead's.",
                "Or a quota is used up: the queue, or the whole installation, would have more live"
                " jobs than it allows, or jobs that take more bytes. Nothing was done.",
            ),
            (
                "`detail` names what would be needed. Roles are bound to users and groups in the"
                " setting `roles`; a queue's `permissions` are changed by operators, with `PUT"
                " /api/v1/queues/{queue}`.",
                "Of a quota `detail` names the setting, the limit and what is used. Wait until jobs"
                " have ended, or cancel some; operators raise the limit in the setting `quotas`.",
            ),
        ),
        "not-found": ProblemType(
            404,
            "There is no such thing",
            (
                "No job, queue, job set or page has that name, or it is of a queue that the caller"
                " may not view: both are answered alike, so that names stay private.",
            ),
            (
                "Check the name. A job that was submitted a moment ago may not have reached the"
                " view yet: pass the `position` of the answer to your submission as `?after=`, and"
                " the read waits until it has.",
                "When some ids of an action are not found, `errors` names them; the others were"
                " told.",
            ),
        ),
        "method-not-allowed": ProblemType(
            405,
            "This address does not take that method",
            ("The address exists, but not with this method.",),
            ("The header `Allow` and `/openapi.json` say which methods it takes.",),
        ),
        "too-slow": ProblemType(
            408,
            "The request took too long to arrive",
            (
                "The head of the request was not complete in time, or its body came more slowly"
                " than the server waits for. The limits are in the setting `connections`.",
            ),
            (
                "Send it again over a better line, or in smaller pieces. If the body comes from a"
                " slow source, read that to its end before you open the request.",
            ),
        ),
        "conflict": ProblemType(
            409,
            "This conflicts with what is there",
            (
                "A queue of that name exists already, a queue that is to be deleted has live jobs,"
                " or a `clientId` was used for another job before. Nothing was done.",
            ),
            (
                "Read what is there and decide. To change a queue use `PUT`. To submit another job"
                " give it another `clientId`; to repeat a submission send exactly the same job.",
            ),
        ),
        "precondition-failed": ProblemType(
            412,
            "It has changed since you read it",
            ("The `ETag` in `If-Match` is not that of the newest version.",),
            ("Read it again, make your change to that, and send it with the new `ETag`.",),
        ),
        "too-large": ProblemType(
            413,
            "The request is too large",
            (
                "The body, inflated, is larger than the server takes, or holds more jobs or ids"
                " than one request may. It was not read any further.",
            ),
            (
                "Send the jobs in several requests; the clients do so by themselves. `detail` names"
                " the limit, which is in the setting `limits`.",
            ),
        ),
        "unsupported-media-type": ProblemType(
            415,
            "The content type is not understood",
            ("`Content-Type` or `Content-Encoding` names something that this call does not read.",),
            (
                "`detail` names what it reads. Bodies are `application/json` unless the call says"
                " otherwise.",
            ),
        ),
        "invalid": ProblemType(
            422,
            "The request is not valid",
            (
                "The request can be read, but says something that cannot be. Every fault that was"
                " found is in `errors`, with a JSON pointer to its place. Nothing was done.",
            ),
            (
                "Mend all of `errors` and send it again. `?dryRun=true` checks a submission without"
                " taking it.",
            ),
        ),
        "too-many-requests": ProblemType(
            429,
            "Too many requests",
            (
                "One caller asked more often than the server lets one caller, or has too many"
                " requests under way, among them streams and long polls; or too many wrong"
                " credentials came from one address.",
            ),
            (
                "Wait for as many seconds as `Retry-After` says. The headers `RateLimit-Policy` and"
                " `RateLimit` of every answer say what is left. Submit in batches: one request"
                " takes thousands of jobs. The limits are in the setting `requests`.",
            ),
        ),
        "head-too-large": ProblemType(
            431,
            "The head of the request is too large",
            ("The address and headers together are larger than the server takes.",),
            ("Send long lists in the body, and fewer cookies.",),
        ),
        "internal": ProblemType(
            500,
            "Fairlead made a mistake",
            ("This is our fault. What was asked may or may not have happened.",),
            (
                "Submissions whose jobs have a `clientId` can be repeated without harm. Tell the"
                " operator the `instance`: under that id the server's log has the details.",
            ),
        ),
        "unavailable": ProblemType(
            503,
            "Something Fairlead needs is away",
            (
                "The log, the database or the view is away or too far behind, or the server has too"
                " much to do or is just ending. If it was a change, nobody can say whether it"
                " happened unless `detail` does.",
            ),
            (
                "Try again after as many seconds as `Retry-After` says. That is safe for jobs with"
                " a `clientId`, and the clients do it by themselves. `/readyz` says what is away.",
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
