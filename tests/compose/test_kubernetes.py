"""The Kubernetes manifests: valid for Kubernetes, and what they promise about pods, probes and volumes."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.compose.command_lines import SETTINGS, check_command_line

FOLDER = Path(__file__).parents[2] / "compose/kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    document for name in KUSTOMIZATION["resources"] for document in yaml.safe_load_all((FOLDER / name).read_text())
]
PODS = {
    document["metadata"]["name"]: document["spec"]["template"]["spec"]
    for document in OBJECTS
    if "template" in document.get("spec", {})
}


def named(kind: str, name: str) -> Any:
    (found,) = (one for one in OBJECTS if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


@pytest.mark.parametrize("document", OBJECTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_kubernetes_takes_each_object(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_a_wrong_field_would_be_found() -> None:
    wrong = {**named("StatefulSet", "loopwarden-worker")}
    wrong["spec"] = {**wrong["spec"], "replica": 2}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.30", strict=True)


def test_every_manifest_is_listed() -> None:
    assert sorted(KUSTOMIZATION["resources"]) == sorted(
        path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml"
    )


def test_workers_have_a_volume_each_for_their_store() -> None:
    workers = named("StatefulSet", "loopwarden-worker")["spec"]
    (claim,) = workers["volumeClaimTemplates"]
    (container,) = workers["template"]["spec"]["containers"]
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == claim["metadata"]["name"])
    assert mount["mountPath"] == "/var/lib/loopwarden"  # LOOPWARDEN_DATA_DIR of the image
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment["LOOPWARDEN_STORE"] == "rocksdb://"
    assert environment["LOOPWARDEN_HTTP_PORT"] == str(container["ports"][0]["containerPort"])


def test_workers_are_watched_by_their_health_endpoint() -> None:
    (container,) = PODS["loopwarden-worker"]["containers"]
    paths = {probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert PODS["loopwarden-worker"]["terminationGracePeriodSeconds"] > 10


def test_every_set_of_pods_that_runs_for_long_has_a_disruption_budget_and_matching_labels() -> None:
    for document in OBJECTS:
        if document["kind"] in {"StatefulSet", "Deployment"}:
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert document["spec"]["selector"]["matchLabels"] == labels
            budget = named("PodDisruptionBudget", document["metadata"]["name"])
            assert budget["spec"]["selector"]["matchLabels"] == labels
    service = named("Service", named("StatefulSet", "loopwarden-worker")["spec"]["serviceName"])
    assert service["spec"]["selector"] == named("StatefulSet", "loopwarden-worker")["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize("name", PODS)
def test_pods_fulfil_the_restricted_security_standard(name: str) -> None:
    pod = PODS[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("name", PODS)
def test_command_lines_and_variables_are_the_programs(name: str) -> None:
    shared = set(named("ConfigMap", "loopwarden")["data"])
    for container in PODS[name]["containers"]:
        check_command_line([str(word) for word in container["args"]])
        assert {one["name"] for one in container.get("env", ())} | shared <= SETTINGS


def test_every_volume_that_is_mounted_is_there() -> None:
    for name, pod in PODS.items():
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        volumes |= {
            claim["metadata"]["name"]
            for one in OBJECTS
            if one["metadata"]["name"] == name
            for claim in one["spec"].get("volumeClaimTemplates", ())
        }
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes, name
        for volume in pod.get("volumes", ()):
            if "configMap" in volume:
                named("ConfigMap", volume["configMap"]["name"])
