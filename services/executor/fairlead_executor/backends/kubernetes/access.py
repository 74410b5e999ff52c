"""Checks that the credentials for a cluster are valid and permit what an executor does there.

    python -m fairlead_executor.backends.kubernetes.access SETTINGS

SETTINGS is JSON of `KubernetesSettings`. It ends with 1 and a sentence on standard error if the
cluster cannot be used. Rights that are missing in some namespaces are lines on standard output.
"""

import asyncio
import sys
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.service import clock
from fairlead_executor.backends.kubernetes import device_watches
from fairlead_executor.backends.kubernetes.api_client import ApiClient, ApiRefused, ApiUnavailable
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings

READ: Final = ("/api/v1/nodes", "/api/v1/pods")
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RUN_RIGHTS: Final = (
    *(("", "pods", verb) for verb in ("get", "create", "patch", "delete")),
    ("", "pods/log", "get"),
    ("", "secrets", "create"),
    *(("", "services", verb) for verb in ("get", "create", "patch", "delete")),
    *(("", "configmaps", verb) for verb in ("create", "patch", "delete")),
    ("networking.k8s.io", "ingresses", "create"),
)
"""API group, resource and verb of what runs need in their namespaces."""


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus


async def check_access(settings: KubernetesSettings) -> list[str]:
    """The rights for runs that are not given in all namespaces.

    Raises `WorldError` if the cluster does not answer, or nodes, pods or devices cannot be read.
    """
    client = await ApiClient.open(settings, clock.monotonic_s)
    try:
        for path in (*READ, *(device_watches.PATHS if settings.device_resources else ())):
            await client.get(path, {"limit": "1"})
        return [
            f"{verb} {resource}"
            for group, resource, verb in RUN_RIGHTS
            if not await _is_permitted(client, group, resource, verb)
        ]
    except (ApiUnavailable, ApiRefused) as error:
        raise WorldError(client.describe_failure(error)) from error
    finally:
        await client.close()


async def _is_permitted(client: ApiClient, group: str, resource: str, verb: str) -> bool:
    name, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": name, "subresource": subresource, "verb": verb}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    response = await client.request("POST", REVIEWS, body)
    if response.code != 201:
        return True  # who is not permitted to ask learns it from the first run
    return msgspec.json.decode(response.body, type=_Review).status.allowed


def main() -> None:
    """See the head of this file."""
    settings = msgspec.json.decode(sys.argv[1], type=KubernetesSettings)
    try:
        missing = asyncio.run(check_access(settings))
    except WorldError as error:
        sys.exit(str(error))
    for right in missing:
        sys.stdout.write(f"{right}\n")


if __name__ == "__main__":
    main()
