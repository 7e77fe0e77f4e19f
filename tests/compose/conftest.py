"""The files of the compose folder, and the programs that check them where they are installed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

COMPOSE = Path(__file__).parents[2] / "compose"


@pytest.fixture(scope="session")
def compose_folder() -> Path:
    return COMPOSE


@pytest.fixture(scope="session")
def services() -> dict[str, Any]:
    """The services of the compose file, anchors and merges resolved."""
    services: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    return services


@pytest.fixture(scope="session")
def alert_rules() -> list[dict[str, Any]]:
    """All alert rules that Prometheus gets."""
    files = sorted((COMPOSE / "prometheus/rules").glob("*.yml"))
    return [rule for file in files for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture(scope="session")
def dashboards() -> dict[str, Any]:
    """The dashboards by file name."""
    return {file.name: json.loads(file.read_text()) for file in sorted((COMPOSE / "grafana/dashboards").glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels that show something."""
    for panel in dashboard["panels"]:
        yield from panel.get("panels", ())
        if panel["type"] != "row":
            yield panel


@pytest.fixture(scope="session")
def queries(dashboards: dict[str, Any], alert_rules: list[dict[str, Any]]) -> dict[str, str]:
    """Every PromQL expression of dashboards and alerts, by where it stands."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in alert_rules}
    for name, dashboard in dashboards.items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                found[f"{name}: {panel['title']} ({target['refId']})"] = target["expr"]
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of promtool (Debian: package prometheus)."""
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    return path
