"""From a pod spec to a command of this machine."""

import json

import msgspec
import pytest

from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.secret_values import Keyring
from fairlead_executor.backends.process.admission import Refused, admit, base_environment
from tests.unit.executor.build import lease

MIB = 2**20


def leased(container: dict[str, object], **spec: object) -> Lease:
    return msgspec.structs.replace(
        lease("a", env={"FAIRLEAD_RUN": "1"}),
        spec=msgspec.Raw(json.dumps({"containers": [container], **spec}).encode()),
    )


REFUSED = {
    "no command": (leased({}), "has no command"),
    "two containers": (
        leased({"command": ["x"]}, containers=[{"command": ["x"]}, {"command": ["y"]}]),
        "more than one container",
    ),
    "no container": (leased({}, containers=[]), "no container"),
    "volumes": (leased({"command": ["x"]}, volumes=[{"name": "v"}]), "volumes"),
    "all at once": (
        leased({"command": ["x"], "volumeMounts": [{}], "envFrom": [{}]}, initContainers=[{}]),
        "initContainers, volumeMounts, envFrom",
    ),
    "a hook": (leased({"command": ["x"], "lifecycle": {"preStop": {}}}), "lifecycle"),
    "a value of the cluster": (
        leased({"command": ["x"], "env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}),
        "variable A",
    ),
    "a NUL": (leased({"command": ["x\0y"]}), "NUL"),
    "an invalid name": (leased({"command": ["x"], "env": [{"name": "A=B"}]}), "A=B"),
    "no spec": (msgspec.structs.replace(lease("a"), spec=msgspec.Raw(b"")), "no pod spec"),
    "no JSON": (msgspec.structs.replace(lease("a"), spec=msgspec.Raw(b"{")), "cannot be read"),
}


@pytest.mark.parametrize(("a_lease", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_unsupported_fields_are_refused_with_the_reason(a_lease: Lease, why: str) -> None:
    with pytest.raises(Refused, match=why):
        admit(a_lease, {})


def test_null_fields_count_as_absent() -> None:
    a_lease = leased(
        {"command": ["x"], "env": None, "volumeMounts": None, "lifecycle": None}, volumes=None
    )
    assert admit(a_lease, {}).argv == ["x"]


def test_command_and_arguments_expand_variables_as_in_kubernetes() -> None:
    a_lease = leased(
        {
            "command": ["sh", "$(A)"],
            "args": ["$(FAIRLEAD_RUN)", "$(UNKNOWN)", "$$(A)", "a$b"],
            "env": [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)y"}, {"name": "C"}],
        }
    )
    command = admit(a_lease, {"PATH": "/bin"})
    assert command.argv == ["sh", "x", "1", "$(UNKNOWN)", "$(A)", "a$b"]
    assert command.env == {"PATH": "/bin", "A": "x", "B": "xy", "C": "", "FAIRLEAD_RUN": "1"}


def test_a_limit_overrides_a_request_and_a_request_overrides_the_lease() -> None:
    both = {"limits": {"memory": "64Mi"}, "requests": {"memory": "32Mi"}}
    one = {"requests": {"memory": "32Mi"}}
    assert admit(leased({"command": ["x"], "resources": both}), {}).memory_bytes == 64 * MIB
    assert admit(leased({"command": ["x"], "resources": one}), {}).memory_bytes == 32 * MIB
    by_lease = msgspec.structs.replace(leased({"command": ["x"]}), requests={"memory": 5})
    assert admit(by_lease, {}).memory_bytes == 5


def test_the_environment_holds_no_variables_of_fairlead() -> None:
    env = base_environment(
        {
            "FAIRLEAD_SIGNING_KEY": "secret",
            "PGPASSWORD": "secret",
            "HOME": "/home/me",
            "LC_ALL": "de_DE.UTF-8",
            "PATH": "relative:/usr/bin",
        }
    )
    assert env == {
        "HOME": "/home/me",
        "LC_ALL": "de_DE.UTF-8",
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin",
    }


def test_an_empty_environment_gets_the_defaults() -> None:
    env = base_environment({})
    assert "/usr/bin" in env["PATH"].split(":")
    assert env.keys() == {"PATH", "HOME", "LANG"}


def test_a_secret_is_expanded_in_the_environment_and_not_in_a_command() -> None:
    ring = Keyring("a key")
    env = [
        {"name": "SECRET", "sealed": ring.seal("q", "hidden")},
        {"name": "DERIVED", "value": "x-$(SECRET)"},
        {"name": "OPEN", "value": "open"},
    ]
    command = ["$(SECRET)", "$(DERIVED)", "$(OPEN)"]
    admitted = admit(leased({"command": command, "env": env}), {}, ring)
    assert admitted.argv == ["$(SECRET)", "$(DERIVED)", "open"]
    assert (admitted.env["SECRET"], admitted.env["DERIVED"]) == ("hidden", "x-hidden")


def test_a_secret_that_cannot_be_opened_is_refused_without_showing_it() -> None:
    sealed = Keyring("another").seal("q", "hidden")
    env = [{"name": "SECRET", "sealed": sealed}]
    with pytest.raises(Refused, match="secret variable SECRET") as refused:
        admit(leased({"command": ["x"], "env": env}), {}, Keyring("a key"))
    assert sealed not in str(refused.value)
