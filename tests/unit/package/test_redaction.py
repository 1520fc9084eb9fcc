"""No secret is shown in errors, logs, history or `repr`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import lakemend
from lakemend.brain.service import Brain
from lakemend.errors import CommitUnknownError, InvalidInputError, StorageError, from_payload
from lakemend.redaction import HIDDEN, is_secret, logger, redacted, redacted_values, shown

SECRETS = [
    "spark.hadoop.fs.s3a.secret.key", "fs.s3a.access.key", "fs.s3a.session.token", "aws_secret_access_key",
    "fs.azure.account.key.x.dfs.core.windows.net", "fs.azure.sas.box.acc", "spark.ssl.keyPassword", "password",
    "spark.authenticate.secret", "sessionToken", "SECRET_KEY", "api-key", "fs.gs.auth.client.secret", "accessToken",
    "javax.jdo.option.ConnectionPassword", "google.private.key", "spark.hadoop.fs.s3a.bucket.b.secret.key",
]  # fmt: skip
PLAIN = [
    "spark.sql.shuffle.partitions", "fs.s3a.endpoint", "key", "spark.master", "delta.appendOnly", "tokens_per_row",
    "write.sort-columns", "sassafras", "spark.hadoop.fs.s3a.path.style.access", "lakemend.changes.key", "keyboard",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name) and shown(name, "hunter2") == HIDDEN


@pytest.mark.parametrize("name", PLAIN)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret(name) and shown(name, "value") == "value"


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIAX:hunter2@bucket/t",
        "cannot read https://user:hunter2@host:8080/a?b=c: no route",
        "https://a.blob.core.windows.net/c/t?sv=2020&sig=hunter2&se=1",
        "GET https://b.s3.amazonaws.com/k?X-Amz-Signature=hunter2&X-Amz-Security-Token=hunter2",
        "fs.s3a.secret.key=hunter2 was refused",
        "aws_secret_access_key: hunter2, region: x",
        "{fs.azure.account.key.acc.dfs.core.windows.net=hunter2}",
        "spark.ssl.keyPassword = hunter2",
        "gs://x?access_token=hunter2",
        "https://hunter2@host/repo.git",
        "sent Authorization: Bearer hunter2.x-y",
        "headers {'Authorization': 'Basic hunter2=='}",
        "options {'aws_secret_access_key': 'hunter2', 'region': 'x'}",
        '{"fs.azure.account.key.acc": "hunter2"}',
    ],
)
def test_texts(text: str) -> None:
    assert "hunter2" not in redacted(text) and HIDDEN in redacted(text)
    assert "hunter2" not in str(StorageError(text, cause=text, remedy=text, location=text, values=[text]))
    error = from_payload(InvalidInputError("x", conf={"secret_key": "hunter2", "a": text}).to_payload())
    assert "hunter2" not in repr(error.values) + repr(error) + str(error)


@pytest.mark.parametrize(
    "text",
    [
        "column token = 'abc' of s3://bucket/t", "file:///a/b@c/d", "password = 'x' AND id < 3", "a: b", "s3a://b/key=1/x",
        "(p = 1)", "write.update.mode=copy-on-write", "mail me@example.org: soon", "s3://bucket/token=7/part-0.parquet",
        "abfss://box@acc.dfs.core.windows.net/t", "{'tokens_per_row': '5', 'name': 'x'}", "hdfs://host:8020/a",
    ],
)  # fmt: skip
def test_texts_without_secrets_stay(text: str) -> None:
    assert redacted(text) == text


def test_values_of_other_types_stay() -> None:
    values = {"version": 3, "names": ("a", "b"), "none": None, "deep": [{"password": "x", "n": 1}]}
    assert redacted_values(values) == {**values, "deep": [{"password": HIDDEN, "n": 1}]}


def test_history_and_logs(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    brain = Brain()
    with caplog.at_level(logging.DEBUG, "lakemend"):
        answer = brain.call("load", '{"table": {"path": "s3://AKIAX:hunter2@bucket/t?sig=hunter2", "x": 1}}')
    assert "hunter2" not in answer + caplog.text


def test_the_token_of_a_write_can_be_looked_for() -> None:
    error = CommitUnknownError("unknown", token="abc", options={"token": "hunter2"}, session_token="hunter2")
    assert error.values == {"token": "abc", "options": {"token": HIDDEN}, "session_token": HIDDEN}


def test_log_lines_and_their_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    log = logger("lakemend.some.module")
    assert logger("lakemend.some.module") is log and len(log.filters) == 1
    url = "https://a.blob.core.windows.net/c/t?sig=hunter2"
    with caplog.at_level(logging.INFO, "lakemend"):
        log.info("%s: %s of %d", url, {"secret_key": "hunter2"}, 3)
        log.warning("put of %s failed", "s3://AKIAX:hunter2@bucket/t", exc_info=ValueError(f"GET {url} said no"))
        try:
            raise OSError("aws_session_token=hunter2")
        except OSError:
            log.exception("failed")
    assert "hunter2" not in caplog.text and caplog.text.count(HIDDEN) == 6  # the traceback quotes its line
    assert "of 3" in caplog.text and "ValueError: GET" in caplog.text and "Traceback" in caplog.text


def test_every_module_logs_through_it() -> None:
    root = Path(lakemend.__file__).parent
    plain = [str(p) for p in root.rglob("*.py") if p.name != "redaction.py" and "logging.getLogger" in p.read_text()]
    assert not plain
