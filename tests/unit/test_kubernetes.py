"""deploy/kubernetes: the manifests are valid, fit together, are safe, and fit the programs' own times."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import yaml
from frontier_harness.deployed import (
    IMAGE,
    KUBERNETES,
    LONGEST_FETCH_S,
    MONITORING,
    ROOT,
    STOP_S,
    assert_is_safe,
    documents,
    flags,
    is_command,
)

from crawler_node.node import ORDERLY

BASE = KUBERNETES / "base"
(KUSTOMIZATION,) = documents(BASE / "kustomization.yaml")
RESOURCES = [each for name in KUSTOMIZATION["resources"] for each in documents(BASE / name)]
NAMED: dict[tuple[str, str], dict[str, Any]] = {
    (each["kind"], each["metadata"]["name"]): each for each in RESOURCES
}
FRONTIER = NAMED["StatefulSet", "toehold-frontier"]
NODE = NAMED["Deployment", "toehold-node"]
WORKLOADS = {"frontier": FRONTIER, "node": NODE}
SECRETS = {"toehold-frontier-tls", "toehold-node-tls", "toehold-callers"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    """The spec of its pods."""
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def container(workload: dict[str, Any]) -> dict[str, Any]:
    """The container of its pods."""
    (only,) = pod(workload)["containers"]
    assert isinstance(only, dict)
    return only


def environment(workload: dict[str, Any], named: dict[tuple[str, str], dict[str, Any]]) -> dict[str, str]:
    """The variables of its container. Those of the pod have the pod's name as a stand-in."""
    own = {
        each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container(workload).get("env", ())
    }
    for each in container(workload)["envFrom"]:
        if "configMapRef" in each:
            own |= named["ConfigMap", each["configMapRef"]["name"]]["data"]
    return own


def ports(workload: dict[str, Any]) -> dict[str, int]:
    """The ports of its container, by name."""
    return {each["name"]: each["containerPort"] for each in container(workload)["ports"]}


def selected(selector: dict[str, str]) -> list[dict[str, Any]]:
    """The workloads whose pods have these labels."""
    return [
        each
        for each in WORKLOADS.values()
        if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]


def check_fields(resources: list[dict[str, Any]], version: str = "") -> None:
    """Raise ValidationError for what a version of Kubernetes does not know; without one, the latest."""
    import kubernetes_validate  # takes a second, which only the process that runs these tests needs

    for each in resources:
        kubernetes_validate.validate(each, version or kubernetes_validate.latest_version(), strict=True)


def built(folder: str) -> list[dict[str, Any]]:
    """The resources that kustomize builds; kubectl has one."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which has kustomize, is not here")
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def rules(workload: str, direction: str) -> list[dict[str, Any]]:
    """The connections that the network policy of a workload lets through."""
    found: list[dict[str, Any]] = NAMED["NetworkPolicy", f"toehold-{workload}"]["spec"][direction]
    return found


def test_the_kustomization_names_every_file_and_every_file_is_there() -> None:
    files = {file.name for file in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
    assert len(NAMED) == len(RESOURCES)
    (image,) = KUSTOMIZATION["images"]
    assert image["name"] == IMAGE == container(FRONTIER)["image"] == container(NODE)["image"]


@pytest.mark.parametrize("folder", ["machines", "without-tls", "own-volumes"])
def test_an_overlay_changes_the_base_and_names_every_file_of_its_own(folder: str) -> None:
    (overlay,) = documents(KUBERNETES / folder / "kustomization.yaml")
    base, *resources = overlay["resources"]
    assert (KUBERNETES / folder / base).samefile(BASE)
    files = {file.name for file in (KUBERNETES / folder).glob("*.yaml")} - {"kustomization.yaml"}
    assert {*resources, *(each["path"] for each in overlay["patches"])} == files


@pytest.mark.parametrize("version", ["1.30", ""], ids=["1.30", "the latest"])
def test_kubernetes_knows_each_field_of_each_resource(version: str) -> None:
    check_fields(RESOURCES, version)


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    wrong = {**NODE, "spec": {**NODE["spec"], "replica": 3}}
    from kubernetes_validate import ValidationError

    with pytest.raises(ValidationError):
        check_fields([wrong])


def test_everything_is_in_one_namespace_which_admits_only_restricted_pods() -> None:
    namespace = NAMED["Namespace", KUSTOMIZATION["namespace"]]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert {each["metadata"].get("namespace") for each in RESOURCES if each is not namespace} == {"toehold"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_keep_to_the_restricted_profile_and_have_no_token(name: str) -> None:
    spec, only = pod(WORKLOADS[name]), container(WORKLOADS[name])
    assert spec["automountServiceAccountToken"] is False
    assert NAMED["ServiceAccount", spec["serviceAccountName"]]["automountServiceAccountToken"] is False
    user = spec["securityContext"]
    assert user["runAsNonRoot"] and user["runAsUser"] == user["runAsGroup"] == user["fsGroup"] == 10001
    assert user["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & spec.keys()
    assert all("hostPort" not in port for port in only["ports"])
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert "memory" in only["resources"]["limits"] and "cpu" in only["resources"]["requests"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_variables_are_options_and_services_add_none(name: str) -> None:
    workload = WORKLOADS[name]
    (program,) = container(workload)["command"]
    own = environment(workload, NAMED)
    assert flags(program, own)
    assert_is_safe(program, own)
    assert pod(workload)["enableServiceLinks"] is False, "a link would be TOEHOLD_FRONTIER_PORT"
    for variable, value in own.items():
        port = ports(workload).get(
            {"LISTEN": "grpc", "METRICS": "metrics"}.get(variable.rpartition("_")[2], "")
        )
        assert port is None or value == f"0.0.0.0:{port}"


@pytest.mark.parametrize("name", WORKLOADS)
def test_mounts_volumes_and_what_they_come_from_exist_and_hold_what_variables_name(name: str) -> None:
    workload = WORKLOADS[name]
    sources = {each["name"]: each for each in pod(workload)["volumes"]}
    claims = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", ())}
    mounts = {each["mountPath"]: each for each in container(workload)["volumeMounts"]}
    assert {each["name"] for each in mounts.values()} == sources.keys() | claims
    for each in sources.values():
        if "persistentVolumeClaim" in each:
            assert ("PersistentVolumeClaim", each["persistentVolumeClaim"]["claimName"]) in NAMED
        elif "secret" in each:
            assert each["secret"]["secretName"] in SECRETS and each["secret"]["defaultMode"] == 0o440
        else:
            assert "emptyDir" in each
    for variable, value in environment(workload, NAMED).items():
        if value.startswith("/"):
            (path,) = [path for path in mounts if value == path or value.startswith(f"{path}/")]
            writes = variable.endswith(("_DATA", "_WARC"))
            assert mounts[path].get("readOnly", False) is not writes, variable


def test_a_secret_has_only_what_its_program_needs() -> None:
    mounted = {
        name: {each["secret"]["secretName"] for each in pod(workload)["volumes"] if "secret" in each}
        for name, workload in WORKLOADS.items()
    }
    assert mounted == {
        "frontier": {"toehold-frontier-tls", "toehold-callers"},
        "node": {"toehold-node-tls"},
    }


def test_selectors_choose_the_pods_that_they_mean() -> None:
    for name, workload in WORKLOADS.items():
        assert selected(workload["spec"]["selector"]["matchLabels"]) == [workload], name
    for service in (each for (kind, _), each in NAMED.items() if kind == "Service"):
        (workload,) = selected(service["spec"]["selector"])
        for port in service["spec"]["ports"]:
            assert ports(workload)[port["targetPort"]] == port["port"]
    budget = NAMED["PodDisruptionBudget", "toehold-node"]["spec"]
    assert selected(budget["selector"]["matchLabels"]) == [NODE]
    assert budget["maxUnavailable"] < NODE["spec"]["replicas"]
    headless = NAMED["Service", FRONTIER["spec"]["serviceName"]]
    assert headless["spec"]["clusterIP"] == "None"


def test_nodes_call_the_frontier_by_its_service() -> None:
    host, _, port = environment(NODE, NAMED)["TOEHOLD_FRONTIER"].partition(":")
    service = NAMED["Service", host]
    assert int(port) in {each["port"] for each in service["spec"]["ports"]}


def test_prometheus_finds_the_metrics_and_differs_in_its_targets_alone() -> None:
    (here,) = documents(KUBERNETES / "prometheus.yml")
    (alone,) = documents(MONITORING / "prometheus.yml")
    for job in alone["scrape_configs"]:
        del job["static_configs"]
    frontier, nodes = here["scrape_configs"]
    (target,) = frontier.pop("static_configs")[0]["targets"]
    (found,) = nodes.pop("dns_sd_configs")
    assert here == alone
    for address in (target, f"{found['names'][0]}:{found['port']}"):
        host, _, port = address.partition(":")
        name, namespace, kind = host.split(".")
        assert (namespace, kind) == (KUSTOMIZATION["namespace"], "svc")
        offered = {each["name"]: each["port"] for each in NAMED["Service", name]["spec"]["ports"]}
        assert offered["metrics"] == int(port)


def test_there_is_one_frontier_and_its_data_stay() -> None:
    spec = FRONTIER["spec"]
    assert spec["replicas"] == 1
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_asks_the_health_of_the_container_itself(name: str, probe: str) -> None:
    asked = container(WORKLOADS[name])[probe]["exec"]["command"]
    listen = environment(WORKLOADS[name], NAMED)[f"TOEHOLD_{name.upper()}_LISTEN"]
    # A frontier lives while it answers operators, even if its shards are all away.
    lives = ["--service", "toehold.frontier.v1.FrontierAdminService"]
    of_service = lives if (name, probe) == ("frontier", "livenessProbe") else []
    assert asked == ["toehold", "health", f"--{name}", f"127.0.0.1:{listen.rpartition(':')[2]}", *of_service]
    assert is_command(asked)


def test_pods_have_time_to_end() -> None:
    assert pod(NODE)["terminationGracePeriodSeconds"] >= LONGEST_FETCH_S + ORDERLY.silence_s
    assert pod(FRONTIER)["terminationGracePeriodSeconds"] > STOP_S


def test_a_node_that_drains_is_not_killed_for_it() -> None:
    probe = container(NODE)["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > LONGEST_FETCH_S + ORDERLY.silence_s


def test_whatever_no_policy_names_is_refused() -> None:
    policy = NAMED["NetworkPolicy", "deny-all"]["spec"]
    assert policy == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, workload in WORKLOADS.items():
        spec = NAMED["NetworkPolicy", f"toehold-{name}"]["spec"]
        assert selected(spec["podSelector"]["matchLabels"]) == [workload]
        assert spec["policyTypes"] == ["Ingress", "Egress"]


def test_the_frontier_calls_nobody_and_nodes_call_names_the_frontier_and_the_public_web() -> None:
    assert rules("frontier", "egress") == []
    names, frontier, web = rules("node", "egress")
    assert {(each["port"], each["protocol"]) for each in names["ports"]} == {(53, "UDP"), (53, "TCP")}
    assert selected(frontier["to"][0]["podSelector"]["matchLabels"]) == [FRONTIER]
    blocks = [each["ipBlock"] for each in web["to"]]
    assert [each["cidr"] for each in blocks] == ["0.0.0.0/0", "::/0"]
    kept_out = {address for each in blocks for address in each["except"]}
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7"} <= kept_out


def test_only_nodes_and_programs_with_the_label_reach_the_frontier_and_only_monitoring_the_metrics() -> None:
    calls, metrics = rules("frontier", "ingress")
    labels = [each["podSelector"]["matchLabels"] for each in calls["from"]]
    assert selected(labels[0]) == [NODE]
    assert labels[1] == NAMED["NetworkPolicy", "toehold-client"]["spec"]["podSelector"]["matchLabels"]
    (scraped,) = rules("node", "ingress")
    assert scraped == metrics
    assert [each["namespaceSelector"] for each in metrics["from"]] == [
        {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    ]


def test_the_ports_of_policies_are_ports_of_the_pods_that_they_lead_to() -> None:
    def named_ports() -> Iterator[tuple[dict[str, Any], str]]:
        for name, workload in WORKLOADS.items():
            for rule in rules(name, "ingress"):
                yield from ((workload, each["port"]) for each in rule["ports"])
        for name in ("node", "client"):
            to_frontier = rules(name, "egress")[1]
            yield from ((FRONTIER, each["port"]) for each in to_frontier["ports"])

    checked = list(named_ports())
    assert len(checked) == 5
    for workload, port in checked:
        assert port in ports(workload)


def test_kustomize_builds_the_base_with_the_image_that_it_is_told() -> None:
    resources = built("base")
    assert len(resources) == len(RESOURCES)
    images = {container(each)["image"] for each in resources if "template" in each.get("spec", {})}
    (image,) = KUSTOMIZATION["images"]
    assert images == {f"{image['newName']}:{image['newTag']}"}


def test_without_tls_no_secret_is_left_and_kubernetes_own_probes_ask_the_frontier() -> None:
    resources = built("without-tls")
    check_fields(resources)
    named = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    assert named.keys() == NAMED.keys()
    frontier, node = named["StatefulSet", "toehold-frontier"], named["Deployment", "toehold-node"]
    for workload in (frontier, node):
        assert not any("secret" in each for each in pod(workload)["volumes"])
        own = environment(workload, named)
        assert not any("/etc/toehold" in value for value in own.values())
        assert flags(container(workload)["command"][0], own)
        mounts = {each["name"] for each in container(workload)["volumeMounts"]}
        claims = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", ())}
        assert mounts == {each["name"] for each in pod(workload)["volumes"]} | claims
    for probe in PROBES:
        asked = container(frontier)[probe]
        assert asked["grpc"]["port"] == ports(frontier)["grpc"] and "exec" not in asked
        assert container(node)[probe]["exec"] == container(NODE)[probe]["exec"]


def test_nodes_with_volumes_of_their_own_are_those_of_the_base_in_all_else() -> None:
    resources = built("own-volumes")
    check_fields(resources)
    named = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    node = named.pop(("StatefulSet", "toehold-node"))
    headless = named["Service", node["spec"]["serviceName"]]
    assert named.keys() == NAMED.keys() - {
        ("Deployment", "toehold-node"),
        ("PersistentVolumeClaim", "toehold-warcs"),
    }
    assert headless["spec"]["selector"] == node["spec"]["selector"]["matchLabels"]
    assert headless["spec"]["clusterIP"] == "None"
    (claim,) = node["spec"]["volumeClaimTemplates"]
    shared = pod(node).pop("volumes")
    assert {each["name"] for each in shared} | {claim["metadata"]["name"]} == {
        each["name"] for each in pod(NODE)["volumes"]
    }
    ours = {**container(node), "image": IMAGE}
    assert ours == container(NODE)
    assert {key: value for key, value in pod(node).items() if key != "containers"} == {
        key: value for key, value in pod(NODE).items() if key not in ("containers", "volumes")
    }


def test_machines_have_neither_volumes_nor_lasting_names_and_a_way_to_each_other() -> None:
    resources = built("machines")
    check_fields(resources)
    named = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    of_machines = {("Deployment", "toehold-frontier"), ("PodDisruptionBudget", "toehold-frontier")}
    assert named.keys() == NAMED.keys() - {("StatefulSet", "toehold-frontier")} | of_machines
    frontier = named["Deployment", "toehold-frontier"]
    assert frontier["spec"]["replicas"] == 3
    assert frontier["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    sources = {each["name"]: each for each in pod(frontier)["volumes"]}
    assert "emptyDir" in sources["data"]
    assert not any("persistentVolumeClaim" in each for each in sources.values())
    mounts = {each["mountPath"]: each for each in container(frontier)["volumeMounts"]}
    assert {each["name"] for each in mounts.values()} == sources.keys()
    secrets = {each["secret"]["secretName"] for each in sources.values() if "secret" in each}
    assert secrets == {"toehold-frontier-tls", "toehold-callers", "toehold-machines-tls"}
    own = environment(frontier, named)
    assert flags("toehold-frontier", own)
    assert_is_safe("toehold-frontier", own)
    for file in ("CERT", "KEY", "CA"):
        path = own[f"TOEHOLD_FRONTIER_CLUSTER_{file}"].rpartition("/")[0]
        assert sources[mounts[path]["name"]]["secret"]["secretName"] == "toehold-machines-tls"
    assert own["TOEHOLD_FRONTIER_MACHINE"] == "metadata.name"
    assert own["TOEHOLD_FRONTIER_CLUSTER_LISTEN"] == "status.podIP"
    assert own["TOEHOLD_FRONTIER_CLUSTER_TLS_NAME"]
    optional = container(frontier)["envFrom"][1]["secretRef"]
    assert optional == {"name": "toehold-bucket", "optional": True}
    budget = named["PodDisruptionBudget", "toehold-frontier"]["spec"]
    assert selected(budget["selector"]["matchLabels"]) == [FRONTIER]
    assert budget["maxUnavailable"] == 1
    for probe in PROBES:
        assert container(frontier)[probe] == container(FRONTIER)[probe]


def test_machines_may_call_each_other_names_and_the_bucket() -> None:
    named = {(each["kind"], each["metadata"]["name"]): each for each in built("machines")}
    policy = named["NetworkPolicy", "toehold-frontier"]["spec"]
    *before, among_them = policy["ingress"]
    assert before == rules("frontier", "ingress")
    assert "ports" not in among_them, "their ports are free ones"
    (source,) = among_them["from"]
    assert selected(source["podSelector"]["matchLabels"]) == [FRONTIER]
    names, others, bucket = policy["egress"]
    assert names == rules("node", "egress")[0]
    assert "ports" not in others
    assert selected(others["to"][0]["podSelector"]["matchLabels"]) == [FRONTIER]
    assert bucket == {"ports": [{"port": 443, "protocol": "TCP"}]}


@pytest.mark.parametrize(
    ("page", "folders"), [("network.md", ("base", "own-volumes")), ("machines.md", ("machines",))]
)
def test_commands_of_the_manual_name_workloads_that_are_there(page: str, folders: Sequence[str]) -> None:
    there = {
        f"{each['kind'].lower()}/{each['metadata']['name']}" for folder in folders for each in built(folder)
    }
    named = set(re.findall(r"(?:deployment|statefulset|service)/[a-z-]+", (ROOT / "docs" / page).read_text()))
    assert named and named <= there
