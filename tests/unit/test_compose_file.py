"""deploy/containers/compose.yaml: what it says exists, fits together, and is safe."""

import re
from typing import Any

import pytest
import yaml
from frontier_harness.containerfile import read
from frontier_harness.deployed import (
    CONTAINERS,
    IMAGE,
    LONGEST_FETCH_S,
    MONITORING,
    ROOT,
    STOP_S,
    assert_is_safe,
    documents,
    flags,
    is_command,
    pairs,
)

from crawler_node.node import ORDERLY

(COMPOSE,) = documents(CONTAINERS / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"].startswith(f"{IMAGE}:")}
SERVERS = {
    name: each
    for name, each in OURS.items()
    if each.get("command", ["-"])[0] in ("toehold-frontier", "toehold-node")
}
NODES = {name: each for name, each in SERVERS.items() if each["command"] == ["toehold-node"]}
CREDENTIALS = (CONTAINERS / "credentials.sh").read_text()
(MACHINES,) = documents(CONTAINERS / "machines.yaml")
FRONTIERS: dict[str, dict[str, Any]] = {
    name: each for name, each in MACHINES["services"].items() if name.startswith("frontier")
}

KEYS = {
    *("build", "cap_drop", "command", "depends_on", "entrypoint", "environment", "healthcheck", "hostname"),
    *("image", "init", "logging", "network_mode", "networks", "ports", "profiles", "pull_policy"),
    *("read_only", "restart", "security_opt", "stop_grace_period", "tmpfs", "ulimits", "volumes"),
}
"""The keys of services that we use, of those that the Compose specification has."""


def seconds(text: str) -> float:
    """A time such as 21m, in seconds."""
    return float(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def volumes(name: str) -> list[tuple[str, str, str]]:
    """The volumes of a service."""
    return list(pairs(SERVICES[name].get("volumes", ())))


def test_it_has_a_frontier_three_nodes_a_console_prometheus_and_grafana() -> None:
    assert SERVICES.keys() == {
        *("credentials", "frontier", "node-1", "node-2", "node-3", "console", "client"),
        *("prometheus", "grafana"),
    }
    assert {each for service in SERVICES.values() for each in service} <= KEYS
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"name", "services", "networks", "volumes"}


def test_all_programs_are_from_one_image_which_is_built_here() -> None:
    assert len({each["image"] for each in OURS.values()}) == 1
    (build,) = [each["build"] for each in OURS.values() if "build" in each]
    assert (CONTAINERS / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).samefile(CONTAINERS / "Containerfile")
    assert all(each["pull_policy"] == "never" for each in OURS.values())


def test_images_of_others_are_pinned() -> None:
    for name in SERVICES.keys() - OURS.keys():
        assert re.fullmatch(r"docker\.io/[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"]), name


@pytest.mark.parametrize("name", SERVERS)
def test_each_variable_of_a_server_is_an_option_and_calls_need_tls_and_a_caller(name: str) -> None:
    (program,) = SERVERS[name]["command"]
    assert flags(program, SERVERS[name]["environment"])
    assert_is_safe(program, SERVERS[name]["environment"])


@pytest.mark.parametrize("name", OURS)
def test_a_program_of_ours_has_no_rights_and_writes_only_to_its_volumes(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "user", "cap_add", "devices"} & service.keys()
    made = " ".join(read(CONTAINERS / "Containerfile")[-1].texts("RUN"))
    for _, target, mode in volumes(name):
        assert mode == "ro" or f" {target}" in made, (
            f"{target} must be in the image, so that its user owns it"
        )


@pytest.mark.parametrize("name", OURS)
def test_commands_and_health_checks_are_commands_of_the_image(name: str) -> None:
    service = OURS[name]
    assert is_command([*service.get("entrypoint", ()), *service.get("command", ())])
    check = service["healthcheck"]
    if not check.get("disable"):
        assert check["test"][0] == "CMD" and is_command(check["test"][1:])


def test_a_health_check_asks_where_its_server_listens() -> None:
    for name, service in SERVERS.items():
        option, address = service["healthcheck"]["test"][-2:]
        kind = "NODE" if name in NODES else "FRONTIER"
        listen: str = service["environment"][f"TOEHOLD_{kind}_LISTEN"]
        assert (option, address) == (f"--{kind.lower()}", f"127.0.0.1:{listen.rpartition(':')[2]}")


def test_volumes_networks_and_files_exist_and_none_is_left_over() -> None:
    used = {source for name in SERVICES for source, _, _ in volumes(name)}
    named = {source for source in used if not source.startswith(".")}
    assert named == COMPOSE["volumes"].keys()
    assert all((CONTAINERS / source).is_file() for source in used - named)
    joined = {each for service in SERVICES.values() for each in service.get("networks", ())}
    assert joined == COMPOSE["networks"].keys()
    for service in SERVICES.values():
        assert service.get("depends_on", {}).keys() <= SERVICES.keys()


def test_published_ports_are_on_loopback_and_can_be_reached() -> None:
    published = {name: each["ports"] for name, each in SERVICES.items() if "ports" in each}
    assert published.keys() == {"console", "prometheus", "grafana"}
    for name, ports in published.items():
        assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in ports)
        assert "host" in SERVICES[name]["networks"], "an internal network publishes no ports"


def test_only_nodes_reach_the_web_and_the_frontier_reaches_nothing_beyond_the_programs() -> None:
    internal = {name for name, each in COMPOSE["networks"].items() if each.get("internal")}
    assert internal == {"toehold"}
    assert SERVICES["frontier"]["networks"] == SERVICES["client"]["networks"] == ["toehold"]
    assert {name for name, each in SERVICES.items() if "web" in each.get("networks", ())} == NODES.keys()
    assert SERVICES["credentials"]["network_mode"] == "none"


def test_only_the_service_that_makes_credentials_has_the_key_of_the_authority() -> None:
    for name in SERVICES.keys() - {"credentials"}:
        own = {source for source, target, mode in volumes(name) if target == "/etc/toehold" and mode == "ro"}
        given = {
            source
            for source, _, _ in volumes(name)
            if source.endswith("-credentials") or source == "authority"
        }
        kind = {"client": "operator"}.get(name, re.sub(r"-\d$", "", name))
        assert given == own == ({f"{kind}-credentials"} if name in OURS else set())


def test_nodes_have_names_of_their_own_which_certificate_and_callers_cover() -> None:
    (node,) = re.findall(r"^certificate node (.*)$", CREDENTIALS, re.MULTILINE)
    hosts = node.split()
    for name, service in NODES.items():
        assert service["hostname"] == service["environment"]["TOEHOLD_NODE_NAME"] == name
        assert f"--host {name} " in f"{node} "
        assert service["environment"]["TOEHOLD_FRONTIER"].partition(":")[0] == "frontier"
    assert hosts.count("--host") == len(NODES) + 2
    assert "caller node --role fetch --node 'node-*'" in CREDENTIALS


def test_a_node_has_time_to_drain_and_the_frontier_to_stop() -> None:
    assert seconds(SERVICES["frontier"]["stop_grace_period"]) > STOP_S
    for service in NODES.values():
        assert seconds(service["stop_grace_period"]) >= LONGEST_FETCH_S + ORDERLY.silence_s


def test_prometheus_differs_from_the_one_of_a_single_machine_only_in_its_targets() -> None:
    (here,) = documents(CONTAINERS / "prometheus.yml")
    (alone,) = documents(MONITORING / "prometheus.yml")
    (of_machines,) = documents(CONTAINERS / "prometheus-machines.yml")
    frontiers = of_machines["scrape_configs"][0].pop("static_configs")[0]["targets"]
    assert frontiers == [f"frontier-{number}:9707" for number in (1, 2, 3)]
    of_machines["scrape_configs"][0]["static_configs"] = here["scrape_configs"][0]["static_configs"]
    assert of_machines == here
    targets = {job["job_name"]: job.pop("static_configs")[0]["targets"] for job in here["scrape_configs"]}
    for job in alone["scrape_configs"]:
        del job["static_configs"]
    assert here == alone
    listening = {
        kind: [
            f"{name}:{each['environment'][variable].rpartition(':')[2]}"
            for name, each in SERVERS.items()
            if variable in each["environment"]
        ]
        for kind, variable in (("frontier", "TOEHOLD_FRONTIER_METRICS"), ("node", "TOEHOLD_NODE_METRICS"))
    }
    assert targets == {f"toehold-{kind}": addresses for kind, addresses in listening.items()}
    mounted = {target: source for source, target, _ in volumes("prometheus")}
    assert mounted["/etc/prometheus/alerts.yml"] == "../monitoring/alerts.yml"
    assert here["rule_files"] == ["alerts.yml"]


def test_grafana_finds_the_dashboard_and_the_data_source_that_it_asks_for() -> None:
    (sources,) = documents(CONTAINERS / "grafana" / "datasources.yaml")
    (source,) = sources["datasources"]
    board: dict[str, Any] = yaml.safe_load((MONITORING / "dashboard.json").read_text())
    (variable,) = [each for each in board["templating"]["list"] if each["type"] == "datasource"]
    assert source["isDefault"] and source["type"] == variable["query"]
    asked = {panel["datasource"]["uid"] for panel in board["panels"] if "datasource" in panel}
    assert asked == {f"${{{variable['name']}}}"}
    assert source["url"] == "http://prometheus:9090"
    (providers,) = documents(CONTAINERS / "grafana" / "dashboards.yaml")
    folder = providers["providers"][0]["options"]["path"]
    mounted = {target: source for source, target, _ in volumes("grafana")}
    assert mounted[f"{folder}/toehold.json"] == "../monitoring/dashboard.json"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder}/toehold.json"


def test_nobody_can_administer_grafana_with_a_known_password() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"


def machine(name: str) -> dict[str, str]:
    """The environment of a frontier of machines.yaml, which adds to that of compose.yaml."""
    own: dict[str, str] = SERVICES["frontier"]["environment"] | FRONTIERS[name]["environment"]
    return own


def test_machines_are_added_to_what_is_there() -> None:
    assert MACHINES.keys() == {"x-machine", "x-cluster", "services", "volumes"}
    assert MACHINES["services"].keys() - FRONTIERS.keys() == {"credentials", "s3", "prometheus"}
    assert FRONTIERS.keys() == {"frontier", "frontier-2", "frontier-3"}
    for name, each in FRONTIERS.items():
        added = each.get("extends", {"file": "compose.yaml", "service": name})
        assert added == {"file": "compose.yaml", "service": "frontier"}


@pytest.mark.parametrize("name", FRONTIERS)
def test_a_machine_has_a_name_of_its_own_which_its_certificate_and_the_network_know(name: str) -> None:
    own = machine(name)
    assert len({machine(each)["TOEHOLD_FRONTIER_MACHINE"] for each in FRONTIERS}) == len(FRONTIERS)
    host = own["TOEHOLD_FRONTIER_CLUSTER_LISTEN"]
    names = {name, *FRONTIERS[name]["networks"]["toehold"]["aliases"]}
    assert {"frontier", host} == names, "callers reach any of them by one name"
    (hosts,) = re.findall(r"^certificate frontier (.*?[^\\])$", CREDENTIALS, re.MULTILINE | re.DOTALL)
    assert {"frontier", host} <= set(hosts.replace("\\\n", " ").split())


@pytest.mark.parametrize("name", FRONTIERS)
def test_a_machines_variables_are_options_and_its_files_are_there(name: str) -> None:
    own = machine(name)
    options = {each: value for each, value in own.items() if not each.startswith("AWS_")}
    assert flags("toehold-frontier", options)
    assert_is_safe("toehold-frontier", own)
    assert own["TOEHOLD_FRONTIER_DATA"].startswith("/var/lib/toehold/")
    for file in ("CERT", "KEY", "CA"):
        assert own[f"TOEHOLD_FRONTIER_CLUSTER_{file}"] == own[f"TOEHOLD_FRONTIER_TLS_{file}"]
    assert is_command(FRONTIERS[name]["command"])
    assert FRONTIERS[name]["command"][-1] == "set -a && . /etc/toehold/bucket.env && exec toehold-frontier"
    assert FRONTIERS[name]["depends_on"].keys() == {"credentials", "s3"}


def test_the_bucket_is_that_of_a_pinned_server_whose_password_is_made() -> None:
    server = MACHINES["services"]["s3"]
    assert re.fullmatch(r"docker\.io/minio/minio:RELEASE\.[0-9TZ-]+", server["image"])
    url = machine("frontier")["TOEHOLD_FRONTIER_LOG"]
    assert f"/data/{url.split('/')[2]} " in server["entrypoint"][-1]
    assert machine("frontier")["AWS_ENDPOINT_URL"] == "http://s3:9000"
    assert server["networks"] == ["toehold"] and "ports" not in server
    used = {
        source
        for each in MACHINES["services"].values()
        for source, _, _ in pairs(each.get("volumes", ()))
        if not source.startswith(".")
    }
    assert used == MACHINES["volumes"].keys()
    assert "/credentials/bucket" in " ".join(read(CONTAINERS / "Containerfile")[-1].texts("RUN"))
    assert "PASSWORD" not in str(MACHINES)


def test_prometheus_of_machines_has_a_file_of_its_own() -> None:
    ((source, target, _),) = pairs(MACHINES["services"]["prometheus"]["volumes"])
    assert (CONTAINERS / source).name == "prometheus-machines.yml"
    assert target in {each for _, each, _ in volumes("prometheus")}
