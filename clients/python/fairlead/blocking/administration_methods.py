# Generated from fairlead/asynchronous/administration_methods.py (`make client`).
"""Methods for operators: queues, clusters and their nodes, tokens, secrets."""

from collections.abc import Iterator, Mapping, Sequence

from fairlead import errors
from fairlead.blocking.client_connection import Connection
from fairlead.calls import job_location, queue_requests, request_building
from fairlead.calls.job_location import Location
from fairlead.models.cluster_models import (
    Cluster,
    ClusterCordon,
    Cordon,
    Node,
    PriorityClass,
    PriorityClasses,
    QuarantineRecord,
)
from fairlead.models.job_models import Queue, require_list
from fairlead.models.secret_models import Secret, SecretValues
from fairlead.models.token_models import NewToken, SignInLink, Token


class AdministrationMethods(Connection):
    """The methods for queues, clusters, tokens and secrets."""

    def create_queue(self, queue: Queue | str, *, dry_run: bool = False) -> Queue:
        """Create a queue, with the defaults if only its name is given. Raises `Conflict`.

        With `dry_run` the server validates the request and creates nothing.
        """
        made = Queue(name=queue) if isinstance(queue, str) else queue
        return self._request(queue_requests.build_creation(made, dry_run=dry_run), Queue)

    def queue(self, name: str) -> Queue:
        """One queue. `replace_queue` uses its `version` to detect changes made since this read."""
        return self._request(request_building.build_get(queue_requests.queue_path(name)), Queue)

    def queues(self) -> Iterator[Queue]:
        """Iterates over all queues."""
        return self._iterate_pages("/queues", (), "queues", Queue)

    def replace_queue(self, queue: Queue, *, dry_run: bool = False) -> Queue:
        """Create or replace a queue. Raises `Conflict` if its `version` is not the given one.

        With `dry_run` the server validates the request and changes nothing.
        """
        return self._request(queue_requests.build_replacement(queue, dry_run=dry_run), Queue)

    def delete_queue(self, name: str) -> Queue:
        """Remove a queue. Raises `Conflict` while it has jobs that have not ended."""
        path = queue_requests.queue_path(name)
        return self._request(request_building.build_delete(path, repeatable=False), Queue)

    def cordon_queue(self, name: str, *, reason: str = "") -> Queue:
        """Start no new runs of this queue; its current runs continue."""
        path = f"{queue_requests.queue_path(name)}/cordon"
        return self._request(request_building.build_post(path, {"reason": reason}), Queue)

    def uncordon_queue(self, name: str) -> Queue:
        """Let the queue start new runs again."""
        path = f"{queue_requests.queue_path(name)}/uncordon"
        return self._request(request_building.build_post(path, {}), Queue)

    def clusters(self) -> Iterator[Cluster]:
        """Iterates over all clusters."""
        return self._iterate_list("/clusters", "clusters", Cluster)

    def nodes(self, cluster: str) -> Iterator[Node]:
        """Iterates over a cluster's nodes."""
        return self._iterate_list(
            f"/clusters/{request_building.escape_segment(cluster)}/nodes", "nodes", Node
        )

    def location(self, *pools: str) -> Location:
        """Where the jobs of these pools run, or of all pools if none is given.

        `is_here` is true only if every node of their clusters is this machine with this user.
        """
        try:
            clusters = [
                cluster
                for cluster in self.clusters()
                if not pools or not cluster.pools.keys().isdisjoint(pools)
            ]
            backends = {cluster.backend for cluster in clusters if cluster.backend}
            has_images = not backends or not backends <= job_location.WITHOUT_IMAGES
            if backends != {job_location.PROCESS}:
                return Location(is_here=False, has_images=has_images)
            nodes = [node for cluster in clusters for node in self.nodes(cluster.executor)]
        except (errors.Forbidden, errors.NotFound):
            return job_location.UNKNOWN
        is_here = job_location.are_here(node.labels for node in nodes)
        return Location(is_here=is_here, has_images=has_images)

    def quarantine(self) -> Iterator[QuarantineRecord]:
        """Iterates over the records of the log that a service could not decode, newest first."""
        return self._iterate_list("/quarantine", "records", QuarantineRecord)

    def cordon(self, cluster: str, node: str | None = None, *, reason: str = "") -> ClusterCordon:
        """Place no new runs on a cluster, or on one of its nodes; current runs continue."""
        return self._set_cordon(cluster, node, Cordon(cordoned=True, reason=reason or None))

    def uncordon(self, cluster: str, node: str | None = None) -> ClusterCordon:
        """Place new runs on a cluster, or on one of its nodes, again."""
        return self._set_cordon(cluster, node, Cordon(cordoned=False))

    def priority_classes(self) -> tuple[PriorityClass, ...]:
        """The configured priority classes."""
        answer = self._request(request_building.build_get("/priority-classes"), PriorityClasses)
        return answer.priority_classes

    def create_token(
        self,
        name: str,
        roles: Sequence[str],
        *,
        queues: Sequence[str] | None = None,
        expires_in_s: int | None = None,
        label: str = "",
    ) -> Token:
        """Create an API token of that name; only this response contains its secret.

        `roles`: any of admin, operator, submitter, viewer. `queues`: the token is valid for these
        queues only. `expires_in_s`: its lifetime in seconds; without it the token does not expire.
        """
        require_list("roles", roles)
        require_list("queues", queues or ())
        body = NewToken(
            name=name or None,
            roles=tuple(roles),
            queues=None if queues is None else tuple(queues),
            label=label or None,
            expires_in_seconds=expires_in_s,
        )
        return self._request(request_building.build_post("/tokens", body, repeatable=False), Token)

    def tokens(self, *, everybody: bool = False) -> Iterator[Token]:
        """Iterates over the caller's tokens, or (for admins) all tokens, without their secrets."""
        return self._iterate_pages(
            "/tokens", (("all", "true"),) if everybody else (), "tokens", Token
        )

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token. Raises `NotFound`."""
        self._request_no_content(
            request_building.build_delete(f"/tokens/{request_building.escape_segment(token_id)}")
        )

    def sign_in_link(self) -> SignInLink:
        """A link that signs a browser in as the caller; it works one time."""
        return self._request(request_building.build_post("/sign-in-links", {}), SignInLink)

    def set_secret(self, queue: str, name: str, values: Mapping[str, str]) -> None:
        """Create a secret of a queue, or replace all its values."""
        body = SecretValues(values=dict(values))
        path = queue_requests.secret_path(queue, name)
        self._request_no_content(request_building.build_post(path, body, method="PUT"))

    def secrets(self, queue: str) -> Iterator[Secret]:
        """Iterates over the secrets of a queue, without their values."""
        return self._iterate_list(queue_requests.secret_path(queue), "secrets", Secret)

    def delete_secret(self, queue: str, name: str) -> None:
        """Remove a secret. Raises `NotFound`."""
        self._request_no_content(
            request_building.build_delete(queue_requests.secret_path(queue, name))
        )

    def _set_cordon(self, cluster: str, node: str | None, cordon: Cordon) -> ClusterCordon:
        path = f"/executors/{request_building.escape_segment(cluster)}"
        if node is not None:
            path += f"/nodes/{request_building.escape_segment(node)}"
        request = request_building.build_post(path, cordon, method="PUT")
        return self._request(request, ClusterCordon)
