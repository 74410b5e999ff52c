"""Authentication: OIDC bearer tokens, API tokens, passwords, browser sessions, anonymous.

`Authenticator` tries them in this order; `signed_tokens` are tokens between services.
"""

from fairlead_common.domain.permissions import Caller as Caller
from fairlead_common.domain.permissions import require_role as require_role
from fairlead_common.web.auth.api_tokens import KIND_SESSION as KIND_SESSION
from fairlead_common.web.auth.api_tokens import KIND_TOKEN as KIND_TOKEN
from fairlead_common.web.auth.api_tokens import digest as digest
from fairlead_common.web.auth.api_tokens import new_token as new_token
from fairlead_common.web.auth.authenticator import COOKIE as COOKIE
from fairlead_common.web.auth.authenticator import Authenticator as Authenticator
from fairlead_common.web.auth.authenticator import cookie_name as cookie_name
from fairlead_common.web.auth.signed_tokens import sign as sign
from fairlead_common.web.auth.signed_tokens import verify as verify
