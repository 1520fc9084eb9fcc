"""A local session starts without noise, and the user's own settings win."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger

from lakemend.session import quiet
from lakemend.session.quiet import quiet_start

NAMES = ("SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "MASTER")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "LOG4J_CONFIGURATION_FILE", "LOG4J2_CONFIGURATION_FILE"):
        monkeypatch.delenv(name, raising=False)


def inside(conf: dict[str, str], home: Path) -> dict[str, str]:
    with quiet_start(conf, home):
        return {name: os.environ[name] for name in ("SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS") if name in os.environ}


@pytest.mark.parametrize("conf", [{}, {"spark.master": "local[2]"}, {"spark.master": "local-cluster[2,1,1024]"}])
def test_local_sessions_are_quiet(conf: dict[str, str], tmp_path: Path) -> None:
    chosen = inside(conf, tmp_path)
    assert chosen["SPARK_LOCAL_IP"] == "127.0.0.1"
    option = chosen["SPARK_SUBMIT_OPTS"]
    assert option.startswith("-Dlog4j.configurationFile=file:///")
    assert Path(option.split("=file://", 1)[1]).is_file()
    assert "SPARK_LOCAL_IP" not in os.environ and "SPARK_SUBMIT_OPTS" not in os.environ


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host"])
def test_clusters_are_left_alone(master: str, tmp_path: Path) -> None:
    assert inside({"spark.master": master}, tmp_path) == {}


@pytest.mark.parametrize("file", ["spark-defaults.conf", "spark-env.sh"])
def test_a_master_that_spark_may_find_elsewhere_is_not_guessed(file: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / file).touch()
    assert inside({}, tmp_path) == {}
    assert "SPARK_LOCAL_IP" in inside({"spark.master": "local"}, tmp_path)


def test_the_users_settings_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    local = {"spark.master": "local"}
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
    chosen = inside(local, tmp_path)
    assert chosen["SPARK_LOCAL_IP"] == "10.0.0.1"
    assert chosen["SPARK_SUBMIT_OPTS"].endswith(" -Da=b")
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=b"
    own = {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine.xml"}
    assert inside({**local, **own}, tmp_path)["SPARK_SUBMIT_OPTS"] == "-Da=b"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "log4j2.properties").touch()
    assert inside(local, tmp_path / "elsewhere")["SPARK_SUBMIT_OPTS"] == "-Da=b"


def test_errors_are_raised_and_not_printed_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"LoggerOf{tmp_path.name}"
    chosen = f"ChosenBy{tmp_path.name}"
    PySparkLogger.getLogger(chosen).setLevel(logging.INFO)
    monkeypatch.setattr(quiet, "_REPEATING", (name, chosen))
    with quiet.quiet_start({"spark.master": "local[2]"}, tmp_path):
        pass
    assert not PySparkLogger.getLogger(name).isEnabledFor(logging.ERROR)
    assert PySparkLogger.getLogger(chosen).isEnabledFor(logging.INFO)
