"""Manifests of training frameworks that become groups: Kubeflow's kinds, and TrainingJobs."""

import json
from typing import Any

import pytest

from fairlead_common.domain.errors import FieldError
from fairlead_submit.domain.manifests.manifest_fields import FieldUse
from tests.unit.submit.test_group_manifests import (
    CONTAINER,
    TEMPLATE,
    Manifest,
    convert,
    converted,
    manifest,
    refused,
    sizes,
)


def replicas(count: int, **more: object) -> Manifest:
    return {"replicas": count, "template": TEMPLATE, **more}


def pytorch(replica_specs: Manifest, **spec: object) -> Manifest:
    spec = {"pytorchReplicaSpecs": replica_specs, **spec}
    return manifest("kubeflow.org/v1", "PyTorchJob", spec)


def tensorflow(replica_specs: Manifest, **spec: object) -> Manifest:
    return manifest("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": replica_specs, **spec})


def mpi(replica_specs: Manifest, **spec: object) -> Manifest:
    return manifest("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": replica_specs, **spec})


def training(trainer: Manifest, **spec: object) -> Manifest:
    spec = {"trainer": trainer, **spec}
    return manifest("paddlepaddle.org/v1", "TrainingJob", spec)


def variables(group: Manifest, role: str) -> dict[str, str]:
    """The environment in the template of a role."""
    (found,) = [each for each in group["roles"] if each["name"] == role]
    env = found["template"]["podSpec"]["containers"][0].get("env", [])
    return {each["name"]: each["value"] for each in env}


def container(group: Manifest, role: str) -> Manifest:
    (found,) = [each for each in group["roles"] if each["name"] == role]
    made: Manifest = found["template"]["podSpec"]["containers"][0]
    return made


def ignored(given: Manifest) -> dict[str, str]:
    return {
        field.pointer.removeprefix("/manifests/0/"): field.detail
        for field in convert(given).conversion.fields
        if field.use is FieldUse.IGNORED
    }


def test_a_pytorch_job_meets_by_the_variables_of_torch_and_ends_with_its_master() -> None:
    group = converted(
        pytorch(
            {"Worker": replicas(2), "Master": replicas(1)},
            runPolicy={
                "backoffLimit": 5,
                "activeDeadlineSeconds": 60,
                "cleanPodPolicy": "None",
                "schedulingPolicy": {"queue": "q2", "priorityClass": "high", "minAvailable": 2},
            },
            nprocPerNode="auto",
        )
    )
    assert sizes(group) == [("master", 1, 1), ("worker", 1, 2)]
    assert group["network"] == {"headlessService": True, "rendezvous": "torch"}
    assert group["completion"] == {"roles": ["master"]}
    assert (group["onMemberFailure"], group["restartLimit"]) == ("restartMember", 5)
    assert group["priorityClass"] == "high"
    assert group["roles"][0]["template"]["maxRuntimeSeconds"] == 60
    assert variables(group, "worker") == {"PET_NPROC_PER_NODE": "auto"}


def test_an_elastic_pytorch_job_has_workers_between_its_bounds() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 7, "rdzvBackend": "c10d"}
    group = converted(pytorch({"Worker": replicas(2)}, elasticPolicy=policy))
    assert sizes(group) == [("worker", 1, 4)]
    assert group["restartLimit"] == 7
    assert "completion" not in group
    assert variables(group, "worker") == {
        "PET_NNODES": "1:4",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "$(MASTER_ADDR):$(MASTER_PORT)",
    }


def test_members_of_a_tf_job_find_each_other_in_tf_config() -> None:
    port = {"name": "tfjob-port", "containerPort": 3333}
    template = {"spec": {"containers": [{**CONTAINER, "ports": [port]}]}}
    group = converted(
        tensorflow(
            {
                "Worker": replicas(2),
                "PS": {"replicas": 1, "template": template},
                "Evaluator": replicas(1),
            }
        )
    )
    assert [role["name"] for role in group["roles"]] == ["ps", "worker", "evaluator"]
    text = variables(group, "worker")["TF_CONFIG"].replace("$(FAIRLEAD_ROLE_INDEX)", "1")
    assert json.loads(text) == {
        "cluster": {
            "ps": ["ps-0.train:3333"],
            "worker": ["worker-0.train:2222", "worker-1.train:2222"],
        },
        "task": {"type": "worker", "index": 1},
    }
    assert group["completion"] == {"roles": ["worker"]}
    assert group["network"] == {"headlessService": True}


@pytest.mark.parametrize(
    ("spec", "roles"), [({}, ["chief"]), ({"successPolicy": "AllWorkers"}, ["worker"])]
)
def test_a_tf_job_ends_with_its_chief_or_with_all_workers(spec: Manifest, roles: list[str]) -> None:
    group = converted(tensorflow({"Chief": replicas(1), "Worker": replicas(2)}, **spec))
    assert group["completion"] == {"roles": roles}


def test_the_launcher_of_an_mpi_job_starts_when_its_workers_run_and_completes_it() -> None:
    given = mpi({"Launcher": replicas(1), "Worker": replicas(2)}, slotsPerWorker=2)
    given["spec"]["sshAuthMountPath"] = "/root/.ssh"
    group = converted(given)
    assert group["startup"] == ["worker", "launcher"]
    assert group["completion"] == {"roles": ["launcher"]}
    assert variables(group, "launcher") == {"MPI_SLOTS_PER_WORKER": "2"}
    assert "SSH" in ignored(given)["spec/sshAuthMountPath"]


def test_members_restart_if_those_of_a_role_do() -> None:
    never = replicas(1, restartPolicy="Never")
    given = pytorch({"Master": never, "Worker": replicas(1, restartPolicy="OnFailure")})
    assert converted(given)["onMemberFailure"] == "restartMember"
    assert list(ignored(given)) == ["spec/pytorchReplicaSpecs/Master/restartPolicy"]
    assert converted(pytorch({"Master": never, "Worker": never}))["onMemberFailure"] == "fail"


def test_a_training_job_becomes_master_servers_and_trainers() -> None:
    resources = {"requests": {"cpu": "100m"}}
    given = training(
        {
            "entrypoint": "python train.py --name 'a b'",
            "workspace": "/home/job",
            "min-instance": 2,
            "max-instance": 6,
            "resources": resources,
            "envs": {"LEVEL": "9"},
        },
        pserver={"min-instance": 2},
        master={"etcd-endpoint": "http://etcd:2379"},
        image="paddle:1",
        port=7000,
        passes=3,
        fault_tolerant=True,
        volumes=[{"name": "v", "emptyDir": {}}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    group = converted(given)
    assert sizes(group) == [("master", 1, 1), ("pserver", 2, 2), ("trainer", 2, 6)]
    assert group["startup"] == ["master", "pserver", "trainer"]
    assert group["completion"] == {"roles": ["trainer"]}
    assert group["onMemberFailure"] == "restartMember"
    trainer = container(group, "trainer")
    assert trainer["command"] == ["python", "train.py", "--name", "a b"]
    assert (trainer["image"], trainer["resources"]) == ("paddle:1", resources)
    assert trainer["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]
    found = variables(group, "trainer")
    assert found == {
        "PADDLE_JOB_NAME": "train",
        "TRAINERS": "2",
        "PSERVERS": "2",
        "ENTRY": "python train.py --name 'a b'",
        "TRAINER_PACKAGE": "/home/job",
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
        "PADDLE_INIT_PORT": "7000",
        "PADDLE_INIT_PORTS_NUM": "1",
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
        "PADDLE_INIT_NUM_PASSES": "3",
        "LEVEL": "9",
    }
    assert container(group, "pserver")["command"] == ["paddle_k8s", "start_new_pserver"]
    assert len(group["roles"][0]["template"]["podSpec"]["containers"]) == 1
    assert variables(group, "master")["ETCD_ENDPOINT"] == "http://etcd:2379"
    assert ignored(given) == {}


def test_a_master_without_an_endpoint_has_its_etcd() -> None:
    group = converted(training({"min-instance": 1}, fault_tolerant=True))
    containers: list[Any] = group["roles"][0]["template"]["podSpec"]["containers"]
    assert [each["name"] for each in containers] == ["master", "etcd"]


def test_a_training_job_whose_members_may_not_restart_fails_with_one() -> None:
    given = training({"min-instance": 2}, pserver={"min-instance": 1}, master={})
    group = converted(given)
    assert sizes(group) == [("pserver", 1, 1), ("trainer", 2, 2)]
    assert group["onMemberFailure"] == "fail"
    assert container(group, "trainer")["command"] == ["paddle_k8s", "start_trainer"]
    assert list(ignored(given)) == ["spec/master"]


UNNAMED = pytorch({"Worker": replicas(1)})
UNNAMED["metadata"] = {}


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (UNNAMED, "/manifests/0/metadata/name"),
        (pytorch({}), "/manifests/0/spec/pytorchReplicaSpecs"),
        (pytorch({"Servant": replicas(1)}), "/manifests/0/spec/pytorchReplicaSpecs/Servant"),
        (pytorch({"Worker": {}}), "/manifests/0/spec/pytorchReplicaSpecs/Worker/template"),
        (
            pytorch({"Worker": replicas(1)}, elasticPolicy={"maxReplicas": 101}),
            "/manifests/0/spec/elasticPolicy/maxReplicas",
        ),
        (mpi({"Worker": replicas(1)}), "/manifests/0/spec/mpiReplicaSpecs/Launcher"),
        (
            training({"min-instance": 1, "max-instance": 2}),
            "/manifests/0/spec/trainer/max-instance",
        ),
        (
            training({"max-instance": 101}, fault_tolerant=True),
            "/manifests/0/spec/trainer/max-instance",
        ),
        (training({"entrypoint": "python 'x"}), "/manifests/0/spec/trainer/entrypoint"),
        (
            manifest("paddlepaddle.org/v1", "TrainingJob", {}),
            "/manifests/0/spec/trainer",
        ),
    ],
)
def test_what_such_a_manifest_lacks_or_cannot_have_is_named(given: Manifest, pointer: str) -> None:
    assert refused(given) == [pointer]


@pytest.mark.parametrize(
    ("given", "fields", "place"),
    [
        (
            training({"min-instance": 5, "max-instance": 2}, fault_tolerant=True),
            ("roles/1/min", "roles/1/max"),
            ("spec/trainer/min-instance", "spec/trainer/max-instance"),
        ),
        (
            pytorch({"Worker": replicas(2)}, elasticPolicy={"minReplicas": 5, "maxReplicas": 2}),
            ("roles/0/min", "roles/0/max"),
            ("spec/elasticPolicy/minReplicas", "spec/elasticPolicy/maxReplicas"),
        ),
        (
            pytorch({"Worker": replicas(2)}, elasticPolicy={"maxReplicas": 1}),
            ("roles/0/min", "roles/0/max"),
            ("spec/pytorchReplicaSpecs/Worker/replicas", "spec/elasticPolicy/maxReplicas"),
        ),
        (
            mpi({"Launcher": replicas(1), "Worker": replicas(1)}),
            ("roles/1/template/maxRuntimeSeconds", "priorityClass", "roles/1/max"),
            (
                "spec/runPolicy/activeDeadlineSeconds",
                "spec/runPolicy/schedulingPolicy/priorityClass",
                "spec/mpiReplicaSpecs/Worker/replicas",
            ),
        ),
    ],
)
def test_errors_are_located_at_the_bounds_of_a_role(
    given: Manifest, fields: tuple[str, ...], place: tuple[str, ...]
) -> None:
    found = convert(given).locate([FieldError(f"/groups/0/{field}", "x") for field in fields])
    assert [error.pointer for error in found] == [f"/manifests/0/{each}" for each in place]


def test_a_minimum_above_the_replicas_of_all_roles_is_refused() -> None:
    policy = {"schedulingPolicy": {"minAvailable": 4}}
    given = pytorch({"Master": replicas(1), "Worker": replicas(2)}, runPolicy=policy)
    assert refused(given) == ["/manifests/0/spec/runPolicy/schedulingPolicy/minAvailable"]


def test_unknown_fields_are_reported_with_the_reason() -> None:
    given = training({"min-instance": 1, "unheardOf": 1}, host_network=True)
    assert ignored(given) == {
        "spec/trainer/unheardOf": "has no meaning for Fairlead",
        "spec/host_network": "members have addresses of their own",
    }
