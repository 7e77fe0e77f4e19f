"""The compose file and the Dockerfile, as far as that can be checked without pulling images."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.compose.command_lines import SETTINGS, check_command_line

ROOT = Path(__file__).parents[2]
#: Run once, or by hand.
SHORT = {"topics", "cli", "demo"}


def loopwarden_words(service: dict[str, Any]) -> list[str] | None:
    """Return the words behind `loopwarden` that a service runs, None when it runs something else."""
    if service.get("image") != "loopwarden:local" or "entrypoint" in service:
        return None
    return [str(word) for word in service["command"]]


def test_every_command_line_is_one_that_the_program_takes(services: dict[str, Any]) -> None:
    found = {name: words for name, service in services.items() if (words := loopwarden_words(service)) is not None}
    assert {"topics", "worker-1", "worker-2", "webhook"} <= found.keys()
    for words in found.values():
        check_command_line(words)


def test_a_wrong_option_would_be_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        check_command_line(["topics", "create", "--partition-count", "12"])


def test_every_variable_of_ours_is_a_setting(services: dict[str, Any]) -> None:
    for name, service in services.items():
        ours = {variable for variable in service.get("environment", {}) if variable.startswith("LOOPWARDEN_")}
        assert ours <= SETTINGS, name
    image = re.findall(r"\b(LOOPWARDEN_\w+)=", (ROOT / "compose/Dockerfile").read_text())
    assert image
    assert set(image) <= SETTINGS


def test_what_runs_for_long_is_restarted_limited_and_watched(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["logging"]["options"]["max-size"], name
        if name not in SHORT:
            assert service["restart"] == "unless-stopped", name
            assert service["healthcheck"]["test"], name
        # Kafka's start script writes its configuration; all others run on a read-only file system.
        assert service["read_only"] is (name != "kafka"), name


def test_the_start_order_follows_what_each_needs(services: dict[str, Any]) -> None:
    def needs(name: str) -> dict[str, str]:
        return {other: how["condition"] for other, how in services[name].get("depends_on", {}).items()}

    assert needs("topics") == {"kafka": "service_healthy"}
    for name in ("worker-1", "worker-2", "webhook"):
        assert needs(name)["topics"] == "service_completed_successfully"
    for name in services:
        for other, condition in needs(name).items():
            assert condition != "service_healthy" or "healthcheck" in services[other], (name, other)


def test_nothing_listens_beyond_this_machine_and_no_image_floats(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for port in service.get("ports", ()):
            assert str(port).startswith("127.0.0.1:"), name
        tag = service["image"].rpartition(":")[2]
        assert re.fullmatch(r"v?\d+\.\d+\.\d+|local", tag), name


def test_every_mounted_file_is_there_and_every_volume_declared(services: dict[str, Any]) -> None:
    document = yaml.safe_load((ROOT / "compose/compose.yaml").read_text())
    mounted = [config["file"] for config in document["configs"].values()]
    for name, service in services.items():
        for volume in service.get("volumes", ()):
            source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
            if source.startswith("."):
                mounted.append(source)
            else:
                assert source in document["volumes"], name
    assert [source for source in mounted if not (ROOT / "compose" / source).exists()] == []


def test_each_worker_has_a_store_of_its_own(services: dict[str, Any]) -> None:
    stores = [services[name]["volumes"][0] for name in ("worker-1", "worker-2")]
    assert len(set(stores)) == 2
    assert all(store.endswith(":/var/lib/loopwarden") for store in stores)


def test_docker_compose_takes_the_file() -> None:
    compose = next((command for command in (["docker", "compose"], ["docker-compose"]) if _answers([*command, "version"])), None)
    if compose is None:
        pytest.skip("docker compose is not installed")
    for profiles in ([], ["--profile", "demo", "--profile", "tools"]):
        command = [*compose, "-f", str(ROOT / "compose/compose.yaml"), *profiles, "config", "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")


def _answers(command: list[str]) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    beside_python = Path(sys.executable).parent
    hadolint = shutil.which("hadolint", path=f"{beside_python}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed (group dev)")
    result = subprocess.run([hadolint, str(ROOT / "compose/Dockerfile")], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_final_image_has_no_compiler_no_root_and_a_process_1_that_hands_signals_on() -> None:
    *_, final = re.split(r"^FROM ", (ROOT / "compose/Dockerfile").read_text(), flags=re.MULTILINE)
    assert not re.search(r"g\+\+|gcc|build-essential|libc6-dev", final)
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["tini", "--", "loopwarden"\]$', final, re.MULTILINE)


def test_the_image_gets_all_that_the_package_is_built_from_and_nothing_else() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "compose/Dockerfile").read_text(), re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


async def test_kafka_knows_each_setting_and_starts_with_it(services: dict[str, Any], kafka_factory: Callable[..., Any]) -> None:
    """All but listeners and folders, which are another machine's."""
    given = {
        variable.removeprefix("KAFKA_").lower().replace("_", "."): value
        for variable, value in services["kafka"]["environment"].items()
        if variable != "KAFKA_HEAP_OPTS"
    }
    places = {name for name in given if "listener" in name or name in {"log.dirs", "controller.quorum.voters"}}
    kafka = kafka_factory(properties={name: value for name, value in given.items() if name not in places})
    client = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await client.start()
    try:
        (answer,) = await client.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")])
    finally:
        await client.close()
    in_force = {config[0]: config[1] for resource in answer.resources for config in resource[4]}
    assert given.keys() <= in_force.keys()
    assert all(in_force[name] == value for name, value in given.items() if name not in places)


def test_the_demo_finds_its_runs_in_the_image(services: dict[str, Any]) -> None:
    script = services["demo"]["entrypoint"][-1]
    (python,) = set(re.findall(r"^FROM python:(\d+\.\d+)-", (ROOT / "compose/Dockerfile").read_text(), re.MULTILINE))
    assert f"/opt/loopwarden/lib/python{python}/site-packages/streams/demo/runs/*.jsonl" in script
    assert list((ROOT / "streams/demo/runs").glob("*.jsonl"))
    check_command_line([*script.removeprefix("exec loopwarden ").split()[:-1], "file.jsonl"])
