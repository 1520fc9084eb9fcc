"""What a session sets in Spark and obstore, and what it refuses, before any JVM starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakemend.errors import InvalidInputError, SessionError
from lakemend.session import settings


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[2,1,1024]"])
def test_a_local_session_listens_on_loopback_only(master: str) -> None:
    assert settings.defaults(master, {})["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host"])
def test_a_cluster_session_keeps_its_address(master: str) -> None:
    assert "spark.driver.host" not in settings.defaults(master, {})


def test_what_the_installation_sets_stays() -> None:
    key = "spark.sql.requireAllClusterKeysForCoPartition"
    assert settings.defaults("local", {})[key] == "false"
    assert key not in settings.defaults("local", {key: "true"})


def test_python_values_in_sparks_spelling() -> None:
    assert settings.as_conf({"a": True, "b": False, "c": 3, "d": "True"}) == {
        "a": "true",
        "b": "false",
        "c": "3",
        "d": "True",
    }


def test_lists_are_joined_each_entry_once() -> None:
    assert settings.joined("a,b", None, ["b", "c"], "") == "a,b,c"


@pytest.mark.parametrize("name", ["", "a.b", "1a", "a-b", "a b", "spark_catalog"])
def test_names_that_are_none_for_a_catalog(name: str) -> None:
    with pytest.raises(InvalidInputError):
        settings.catalog_settings(name, "/x")


def test_s3_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    options = settings.s3_options(True)
    assert settings.s3_for_spark(options) == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    assert settings.s3_for_storage(options) == {
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "eu-central-1",
        "aws_virtual_hosted_style_request": False,
        "client_options": {"allow_http": True},
    }


def test_s3_options_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    options = settings.s3_options({"region": "us-east-1", "path_style": False, "endpoint": "https://s3.example"})
    assert options == {"region": "us-east-1", "path_style": "false", "endpoint": "https://s3.example"}
    assert "client_options" not in settings.s3_for_storage(options)


def test_amazon_itself_needs_no_options() -> None:
    assert settings.s3_options(True) == {}


def test_an_unknown_s3_option_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="unknown S3 option 'acess_key'"):
        settings.s3_options({"acess_key": "typo"})


def test_obstore_takes_the_options() -> None:
    from lakemend import storage

    options = settings.s3_options(
        {"endpoint": "http://127.0.0.1:1", "access_key": "k", "secret_key": "s", "region": "r"}
    )
    storage.open_store("s3://bucket/key", settings.s3_for_storage(options))


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakemend.session import session

    with pytest.raises(SessionError, match="Spark Connect"):
        session(master="sc://host")
    with pytest.raises(SessionError, match="Spark Connect"):
        session(conf={"spark.remote": "sc://host"})
    with pytest.raises(SessionError, match="Spark Connect"):
        session(conf={"spark.api.mode": "connect"})
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(SessionError, match="SPARK_REMOTE") as caught:
        session()
    assert "unset SPARK_REMOTE" in caught.value.remedy


def test_attach_refuses_what_is_no_session() -> None:
    from lakemend.session import attach

    with pytest.raises(InvalidInputError, match="not str"):
        attach("spark")  # type: ignore[arg-type]
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SessionError, match="Spark Connect"):
        attach(connect)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("spark.lakemend.planing.preserveDataGrouping", "spark.lakemend.planning.preserveDataGrouping"),
        ("spark.lakemend.merge.broadcastthreshold", "spark.lakemend.merge.broadcastThreshold"),
        ("spark.lakemend.unheard.of", None),
    ],
)
def test_settings_of_lakemend_that_there_are_none_of(key: str, meant: str | None) -> None:
    with pytest.raises(InvalidInputError, match="there is no setting") as caught:
        settings.require_known({"spark.master": "local", key: "1"})
    assert caught.value.meant == meant


def test_every_setting_that_is_read_is_known() -> None:
    sources = Path(settings.__file__).parents[1]
    files = [*sources.rglob("*.py"), *sources.rglob("*.scala")]
    read = {name for file in files for name in re.findall(r'"(spark\.lakemend\.[\w.-]+)"', file.read_text())}
    assert read == set(settings.OWN)
    settings.require_known(dict.fromkeys(settings.OWN, "1"))
