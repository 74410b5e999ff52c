"""The effective request of a pod, its defaults, and its canonical shape."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.scheduling import shapes
from fairlead_submit.domain.pods import pod_spec
from fairlead_submit.domain.policy import JobDefaults

DEFAULTS = JobDefaults()
Amounts = Mapping[str, int]


def demand(spec: object, priority_class: str | None = None) -> pod_spec.PodDemand:
    return pod_spec.read_pod_spec(msgspec.json.encode(spec), priority_class, DEFAULTS)


def container(cpu: object = "1", **more: object) -> dict[str, object]:
    return {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}, **more}


SIDECAR = {"restartPolicy": "Always"}

CASES = {
    "containers add up": ({"containers": [container(1), container(2)]}, 3000),
    "the largest init container counts when it is more": (
        {"containers": [container(1)], "initContainers": [container(5), container(3)]},
        5000,
    ),
    "an init container that is less counts nothing": (
        {"containers": [container(2)], "initContainers": [container(1)]},
        2000,
    ),
    "a sidecar runs beside the containers": (
        {"containers": [container(1)], "initContainers": [container(2, **SIDECAR)]},
        3000,
    ),
    "an init container runs beside the sidecars before it": (
        {
            "containers": [container(1)],
            "initContainers": [container(2, **SIDECAR), container(4), container(1, **SIDECAR)],
        },
        6000,
    ),
    "an init container does not run beside the sidecars after it": (
        {
            "containers": [container(1)],
            "initContainers": [container(4), container(2, **SIDECAR)],
        },
        4000,
    ),
    "the overhead is added": ({"containers": [container(1)], "overhead": {"cpu": "250m"}}, 1250),
    "a limit is a request where none is said": (
        {"containers": [{"resources": {"limits": {"cpu": 3}}}]},
        3000,
    ),
    "a request counts, not its limit": (
        {"containers": [{"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 3}}}]},
        1000,
    ),
    "an amount for the pod as a whole takes the place of the sum": (
        {"containers": [container(1), {}], "resources": {"requests": {"cpu": "1500m"}}},
        1500,
    ),
    "each container that says nothing gets the default": ({"containers": [{}, {}]}, 2000),
    "a part of a thousandth counts as one": ({"containers": [container("0.0001")]}, 1),
}


@pytest.mark.parametrize(("spec", "cpu"), CASES.values(), ids=CASES.keys())
def test_the_effective_request(spec: object, cpu: int) -> None:
    read = demand(spec)
    assert read.errors == ()
    assert read.requests["cpu"] == cpu


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 1000))


@given(
    apps=st.lists(amounts, max_size=3),
    inits=st.lists(st.tuples(amounts, st.booleans()), max_size=4),
    overhead=amounts,
)
def test_the_effective_request_is_what_the_pod_needs_at_its_fullest_moment(
    apps: Sequence[Amounts], inits: Sequence[tuple[Amounts, bool]], overhead: Amounts
) -> None:
    effective = pod_spec.compute_effective_request(apps, inits, overhead, {})
    for name in ("cpu", "memory", "gpu"):
        moments, sidecars = [0], 0
        for asked, is_sidecar in inits:
            moments.append(sidecars + asked.get(name, 0))
            sidecars += asked.get(name, 0) if is_sidecar else 0
        moments.append(sidecars + sum(asked.get(name, 0) for asked in apps))
        assert effective.get(name, 0) == max(moments) + overhead.get(name, 0)


quantities = st.one_of(
    st.integers(0, 10**6).map(str),
    st.tuples(st.integers(0, 10**4), st.sampled_from(["m", "k", "M", "Ki", "Mi", "Gi"])).map(
        lambda pair: f"{pair[0]}{pair[1]}"
    ),
    st.text(max_size=6),
    st.integers(-5, 5),
    st.floats(-5, 5, allow_nan=False),
)


@given(
    requests=st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), quantities),
    limits=st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), quantities),
)
def test_any_amount_is_accepted_or_refused_with_a_pointer(
    requests: dict[str, object], limits: dict[str, object]
) -> None:
    read = demand({"containers": [{"resources": {"requests": requests, "limits": limits}}]})
    for error in read.errors:
        part, name = error.pointer.removeprefix("/containers/0/resources/").split("/", 1)
        assert name.replace("~1", "/") in {"requests": requests, "limits": limits}[part]
    assert all(amount > 0 for amount in read.requests.values())
    if not read.errors:
        (filled,) = read.completed
        assert (
            filled.requests.keys() == filled.limits.keys() == {*requests, *limits, "cpu", "memory"}
        )


def test_a_part_of_a_device_is_an_error_with_its_place() -> None:
    resources = {"requests": {"nvidia.com/gpu": "0.5", "memory": "0.5"}, "limits": {"x/y": 1.5}}
    read = demand({"containers": [{"resources": resources}]})
    assert [(error.pointer, error.detail) for error in read.errors] == [
        (
            "/containers/0/resources/requests/nvidia.com~1gpu",
            "'0.5' is not a whole number; nvidia.com/gpu is counted in whole units, like 1 or 2",
        ),
        (
            "/containers/0/resources/limits/x~1y",
            "1.5 is not a whole number; x/y is counted in whole units, like 1 or 2",
        ),
    ]


def affinity(*terms: object) -> dict[str, object]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_pods_that_differ_only_in_order_have_one_shape() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["b", "a"]}
    disk = {"key": "disk", "operator": "Exists"}
    one = {
        "containers": [container()],
        "nodeSelector": {"a": "1", "b": "2"},
        "affinity": affinity({"matchExpressions": [zone, disk]}, {"matchExpressions": [disk]}),
        "tolerations": [{"key": "x", "operator": "Exists"}, {"key": "y", "value": "1"}],
    }
    sorted_zone = {"key": "zone", "operator": "In", "values": ["a", "b", "a"]}
    other = {
        "tolerations": [
            {"key": "y", "operator": "Equal", "value": "1", "tolerationSeconds": 5},
            {"key": "x", "operator": "Exists"},
            {"key": "x", "operator": "Exists"},
        ],
        "affinity": affinity(
            {"matchExpressions": [disk]}, {"matchExpressions": [disk, sorted_zone]}
        ),
        "nodeSelector": {"b": "2", "a": "1"},
        "containers": [container("1000m", image="x")],
    }
    assert bytes(demand(one).shape) == bytes(demand(other).shape)
    shape = shapes.decode(demand(one).shape)
    assert len(shape.affinity) == 2
    assert shape.tolerations[0].operator == "Exists" or shape.tolerations[1].operator == "Exists"


def preferring(*preferences: object) -> dict[str, object]:
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(preferences)}}


def test_weights_of_equal_preferred_terms_are_added() -> None:
    fast = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["b", "a"]}]}
    same = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["a", "b"]}]}
    near = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    given = [(30, fast), (1, near), (12, same), (100, {})]
    preferences = [{"weight": weight, "preference": term} for weight, term in given]
    reads = [
        demand({"containers": [container()], "affinity": preferring(*order)})
        for order in (preferences, preferences[::-1])
    ]
    assert not any(read.errors for read in reads)
    assert bytes(reads[0].shape) == bytes(reads[1].shape)
    shape = shapes.decode(reads[0].shape)
    assert shape.affinity == ()
    fields = {preferred_term.weight: preferred_term.term for preferred_term in shape.preferred}
    assert fields[42].match_expressions[0].values == ("a", "b")
    assert fields[1].match_fields[0].values == ("n1",)
    assert len(fields) == 2


FAULTY = {
    "a wish that no node could meet as it is written": (
        {
            "affinity": preferring(
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
            )
        },
        f"{pod_spec._PREFERRED_AT}/0/preference/matchExpressions/0",
    ),
    "a weight that Kubernetes does not know": (
        {"affinity": preferring({"weight": 101, "preference": {}})},
        f"{pod_spec._PREFERRED_AT}/0/weight",
    ),
    "an operator that is none": (
        {"affinity": affinity({"matchExpressions": [{"key": "a", "operator": "Like"}]})},
        f"{pod_spec._TERMS_AT}/0/matchExpressions/0",
    ),
    "In without values": (
        {"affinity": affinity({"matchExpressions": [{"key": "a", "operator": "In"}]})},
        f"{pod_spec._TERMS_AT}/0/matchExpressions/0",
    ),
    "Gt with a word": (
        {
            "affinity": affinity(
                {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}
            )
        },
        f"{pod_spec._TERMS_AT}/0/matchExpressions/0",
    ),
    "a requirement without a key": (
        {"affinity": affinity({"matchExpressions": [{"operator": "Exists"}]})},
        f"{pod_spec._TERMS_AT}/0/matchExpressions/0/key",
    ),
    "no term": ({"affinity": affinity()}, pod_spec._TERMS_AT),
    "a toleration without a key": ({"tolerations": [{"value": "x"}]}, "/tolerations/0/key"),
    "a toleration with an odd effect": (
        {"tolerations": [{"key": "a", "effect": "Never"}]},
        "/tolerations/0/effect",
    ),
    "two classes": ({"priorityClassName": "high"}, "/priorityClassName"),
}


@pytest.mark.parametrize(("part", "pointer"), FAULTY.values(), ids=FAULTY.keys())
def test_an_invalid_field_of_a_pod_spec_is_named(part: dict[str, object], pointer: str) -> None:
    read = demand({"containers": [container()], **part}, "low")
    assert [error.pointer for error in read.errors] == [pointer]


def test_tolerations_are_added_by_class_and_by_resource() -> None:
    defaults = JobDefaults(
        tolerations_by_class={"high": (shapes.Toleration(key="urgent", operator="Exists"),)},
        tolerations_by_resource={
            "nvidia.com/gpu": (shapes.Toleration(key="gpu", value="true", effect="NoSchedule"),)
        },
    )
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    read = pod_spec.read_pod_spec(msgspec.json.encode(spec), "high", defaults)
    assert {item.key for item in shapes.decode(read.shape).tolerations} == {"urgent", "gpu"}
    complete = pod_spec.complete_pod_spec(msgspec.convert(spec, dict[str, object]), read)
    assert complete["tolerations"] == [
        {"key": "urgent", "operator": "Exists"},
        {"key": "gpu", "value": "true", "effect": "NoSchedule"},
    ]


COUNTED = JobDefaults(
    overhead_by_runtime_class={"kata": {"cpu": "250m", "memory": "160Mi"}},
    requests_by_claim={"one-gpu": {"gpu.example.com": "1"}, "shared": {"gpu.example.com": "2"}},
)


def counted(**fields: object) -> Amounts:
    spec = {"containers": [container("1")], **fields}
    found = pod_spec.read_pod_spec(msgspec.json.encode(spec), None, COUNTED)
    assert found.errors == ()
    return found.requests


def test_the_overhead_of_a_runtime_class_is_counted() -> None:
    assert counted(runtimeClassName="kata")["cpu"] == 1250
    assert counted(runtimeClassName="runc")["cpu"] == 1000
    assert counted(runtimeClassName="kata", overhead={"cpu": "1"})["cpu"] == 2000


def test_claims_of_devices_are_counted_by_their_template_or_name() -> None:
    claims = [
        {"name": "a", "resourceClaimTemplateName": "one-gpu"},
        {"name": "b", "resourceClaimTemplateName": "one-gpu"},
        {"name": "c", "resourceClaimName": "shared"},
        {"name": "d", "resourceClaimTemplateName": "a-nic"},
    ]
    assert counted(resourceClaims=claims)["gpu.example.com"] == 4
    assert "gpu.example.com" not in counted()


def test_extended_resources_storage_and_huge_pages_are_counted() -> None:
    amounts = {
        "ephemeral-storage": "2Gi",
        "hugepages-2Mi": "4Mi",
        "hugepages-1Gi": "1Gi",
        "nvidia.com/gpu": "2",
        "example.com/license": 3,
    }
    given = {"cpu": "1", "memory": "1Gi", **amounts}
    found = counted(containers=[{"resources": {"limits": given}}])
    assert {name: found[name] for name in amounts} == {
        "ephemeral-storage": 2 * 2**30,
        "hugepages-2Mi": 4 * 2**20,
        "hugepages-1Gi": 2**30,
        "nvidia.com/gpu": 2,
        "example.com/license": 3,
    }
