"""Dashboards and alerts ask only for what a process of ours exports: no panel without a series."""

import importlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

import streams

#: Of every process and scrape.
GIVEN = {"up", "process_resident_memory_bytes", "ALERTS"}
GIVEN_LABELS = {"instance", "job", "le", "alertname", "alertstate"}
ENDINGS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def exported() -> dict[str, tuple[str, set[str]]]:
    """Return type and labels of each metric of our modules."""
    folder = Path(streams.__file__).parent
    for file in folder.rglob("*metrics*.py"):
        importlib.import_module(f"streams.{'.'.join(file.relative_to(folder).with_suffix('').parts)}")
    found = {}
    # Neither the registry's collectors nor the labels of one without samples can be had otherwise.
    for collector in list(REGISTRY._collector_to_names):
        for family in collector.collect():
            if family.name.startswith("loopwarden_"):
                labels = set(collector._labelnames) if isinstance(collector, MetricWrapperBase) else set()
                labels |= {name for sample in family.samples for name in sample.labels} - {"le"}
                found[family.name] = (family.type, labels)
    return found


def series(metrics: dict[str, tuple[str, set[str]]]) -> dict[str, set[str]]:
    """Return the labels of each series that metrics give."""
    return {name + ending: labels for name, (kind, labels) in metrics.items() for ending in ENDINGS[kind]}


def asked_for(expression: str) -> tuple[set[str], set[str]]:
    """Return the series and the labels that a PromQL expression names."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    labels = {label.strip() for group in re.findall(r"(?:by|without)\s*\(([^)]*)\)", bare) for label in group.split(",")}
    labels |= {label for matcher in re.findall(r"\{([^}]*)\}", bare) for label in re.findall(r"(\w+)\s*[=!]", matcher)}
    rest = re.sub(r"(?:by|without)\s*\([^)]*\)|\{[^}]*\}|\[[^\]]*\]", "", bare)
    words = {word for word in re.findall(r"[a-zA-Z_:]\w*(?!\w|\s*\()", rest) if "_" in word or word in GIVEN}
    return words, labels


def test_every_query_names_a_series_that_we_export_with_these_labels(queries: dict[str, str]) -> None:
    known = series(exported())
    for place, expression in queries.items():
        names, labels = asked_for(expression)
        assert names, f"{place}: {expression}"
        unknown = names - known.keys() - GIVEN
        assert not unknown, f"{place}: {unknown}"
        possible = set().union(*(known.get(name, set()) for name in names)) | GIVEN_LABELS
        assert labels <= possible, f"{place}: {labels - possible}"


def test_the_reader_of_queries_sees_series_and_labels() -> None:
    names, labels = asked_for(
        'histogram_quantile(0.9, sum by (le, x) (rate(a_b_bucket{k="c_d"}[5m]))) or (e_f unless e_f offset 1h)'
    )
    assert names == {"a_b_bucket", "e_f"}
    assert labels == {"le", "x", "k"}


def test_every_metric_of_ours_is_asked_for_somewhere(queries: dict[str, str]) -> None:
    named = set().union(*(asked_for(expression)[0] for expression in queries.values()))
    unused = [name for name, (kind, _) in (exported()).items() if not {name + ending for ending in ENDINGS[kind]} & named]
    assert unused == []


def test_names_keep_prometheus_conventions() -> None:
    """Base units, `_total` (prometheus-client adds it), and no run or call ids in labels."""
    for name, (_, labels) in (exported()).items():
        assert not re.search(r"_(ms|millis|kb|mb|minutes|hours)(_|$)", name), name
        assert not labels & {"run_id", "call_id", "session_id", "decision_id", "tool", "agent_id"}, name


def test_panels_say_what_they_show_and_use_the_provisioned_source(dashboards: dict[str, Any], compose_folder: Path) -> None:
    source = yaml.safe_load((compose_folder / "grafana/provisioning/datasources/prometheus.yml").read_text())
    (uid,) = {one["uid"] for one in source["datasources"]}
    assert len({dashboard["uid"] for dashboard in dashboards.values()}) == len(dashboards) == 2
    for name, dashboard in dashboards.items():
        ids = [panel["id"] for panel in dashboard["panels"]]
        assert len(set(ids)) == len(ids)
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24, (name, panel["title"])
            if panel["type"] == "row":
                continue
            assert panel["title"], name
            assert panel["datasource"] == {"type": "prometheus", "uid": uid}
            assert all(target["datasource"]["uid"] == uid for target in panel["targets"])


def test_panels_do_not_lie_on_each_other(dashboards: dict[str, Any]) -> None:
    for name, dashboard in dashboards.items():
        taken: dict[tuple[int, int], str] = {}
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    assert (x, y) not in taken, f"{name}: {panel['title']} lies on {taken[x, y]}"
                    taken[x, y] = panel["title"]


def test_every_alert_says_how_urgent_it_is_and_what_to_do(alert_rules: list[dict[str, Any]]) -> None:
    assert len({rule["alert"] for rule in alert_rules}) == len(alert_rules)
    for rule in alert_rules:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"]
        assert len(rule["annotations"]["description"]) > 40


def test_prometheus_takes_its_configuration_and_its_rules(promtool: str, compose_folder: Path) -> None:
    check = [promtool, "check", "config", str(compose_folder / "prometheus/prometheus.yml")]
    result = subprocess.run(check, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_alerts_fire_when_they_should(promtool: str) -> None:
    cases = Path(__file__).with_name("alerts.test.yml")
    result = subprocess.run([promtool, "test", "rules", str(cases)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_is_tried(alert_rules: list[dict[str, Any]]) -> None:
    tried = Path(__file__).with_name("alerts.test.yml").read_text()
    assert [rule["alert"] for rule in alert_rules if rule["alert"] not in tried] == []


def test_queries_of_dashboards_are_promql(promtool: str, queries: dict[str, str], tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": re.sub(r"\$__\w+", "5m", expression)}
        for number, expression in enumerate(queries.values())
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    result = subprocess.run(
        [promtool, "check", "rules", str(tmp_path / "rules.yml")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("job", ["loopwarden-worker", "loopwarden-enforcement"])
def test_prometheus_scrapes_every_process_that_exports(job: str, compose_folder: Path, services: dict[str, Any]) -> None:
    config = yaml.safe_load((compose_folder / "prometheus/prometheus.yml").read_text())
    (scraped,) = (one for one in config["scrape_configs"] if one["job_name"] == job)
    targets = {target for static in scraped["static_configs"] for target in static["targets"]}
    wanted = {"loopwarden-worker": "worker", "loopwarden-enforcement": "enforce"}[job]
    assert targets == {f"{name}:8080" for name, service in services.items() if (service.get("command") or [""])[0] == wanted}
