"""The settings reach Faust, aiokafka's producer and its consumer."""

import ssl
from pathlib import Path
from typing import Any

import faust
import pytest

from streams.transport import BatchTable, batch_app_settings
from streams.transport.driver import Transport


def app_with(tmp_path: Path, **options: Any) -> faust.App:
    return faust.App("settings", **batch_app_settings(bootstrap_servers="a:1, b:2", data_dir=tmp_path, **options))


def test_the_scheme_finds_the_transport_by_its_entry_point(tmp_path: Path) -> None:
    assert type(app_with(tmp_path).transport) is Transport


@pytest.mark.parametrize("idempotence", [True, False])
def test_idempotence_and_servers_reach_the_producer(idempotence: bool, tmp_path: Path) -> None:
    app = app_with(tmp_path, idempotence=idempotence)
    producer: Any = app.producer
    settings = {**producer._settings_default(), **producer._settings_extra()}
    assert settings["bootstrap_servers"] == ["a:1", "b:2"]
    assert settings["enable_idempotence"] is idempotence
    assert settings["acks"] == "all"


def test_credentials_pass_untouched(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    credentials = faust.SASLCredentials(username="u", password="p", ssl_context=context, mechanism="SCRAM-SHA-512")
    app = app_with(tmp_path, broker_credentials=credentials)
    assert app.conf.broker_credentials is credentials
    producer: Any = app.producer
    authentication = producer._settings_auth()
    assert authentication["security_protocol"] == "SASL_SSL"
    assert authentication["sasl_mechanism"] == "SCRAM-SHA-512"
    assert authentication["ssl_context"] is context


def test_sessions_may_be_longer_than_the_default_request_time_out(tmp_path: Path) -> None:
    conf = app_with(tmp_path, session_timeout=45.0).conf
    assert conf.broker_request_timeout >= conf.broker_session_timeout
    assert conf.broker_rebalance_timeout >= conf.broker_session_timeout


def test_tables_are_batch_tables(tmp_path: Path) -> None:
    assert isinstance(app_with(tmp_path).Table("runs", partitions=2), BatchTable)


def test_no_web_server_and_no_standbys(tmp_path: Path) -> None:
    conf = app_with(tmp_path).conf
    assert not conf.web_enabled
    assert conf.table_standby_replicas == 0
