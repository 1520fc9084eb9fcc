"""The command line, run in process and, once, as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lakemend import cli
from lakemend.brain.service import Brain
from lakemend.schema import struct


@pytest.fixture
def path(tmp_path):
    where = str(tmp_path / "a table")
    brain = Brain()
    schema = struct(("id", "long"), ("day", "date"))
    partitioning = [{"transform": "identity", "source": ["day"]}]
    table = {"path": where}
    staged = brain.ask("stage", {"table": table, "mode": "create", "schema": schema, "partitioning": partitioning})
    added = [
        {"path": f"day={d}/x{d}.parquet", "size": 2048, "rows": 10, "modified": 1, "partition": [d],
         "stats": [[["id"], d * 10, d * 10 + 9, 0]]}
        for d in range(4)
    ]  # fmt: skip
    brain.ask("commit", {"table": table, "version": None, "operation": "append", "command": "CREATE TABLE AS SELECT",
                         "staged": staged["staged"], "added": added, "token": "t"})  # fmt: skip
    return where


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as done:
        cli.main(arguments)
    out = capsys.readouterr()
    return done.value.code or 0, out.out, out.err


def test_history(capsys, path):
    code, out, _ = run(capsys, "history", path)
    assert code == 0
    assert "CREATE TABLE AS SELECT" in out
    assert json.loads(run(capsys, "history", path, "--json", "-n", "1")[1])[0]["version"] == 0


def test_files(capsys, path):
    assert "day=0/x0.parquet" in run(capsys, "files", path)[1]
    listed = json.loads(run(capsys, "files", path, "--version", "0", "--json")[1])
    assert [f["rows"] for f in listed] == [10] * 4
    assert listed[1]["partition"] == {"day": "1970-01-02"}


def test_detail(capsys, path):
    assert "id long, day date" in run(capsys, "detail", path)[1]
    facts = json.loads(run(capsys, "detail", path, "--json")[1])
    assert (facts["files"], facts["rows"], facts["partitioning"]) == (4, 40, ["day"])


def test_plan(capsys, path):
    code, out, _ = run(capsys, "plan", path, "--where", "day > '1970-01-02' and id < 25")
    assert code == 0
    assert "1 of 4 files kept (2.0 KiB), 3 skipped" in out
    assert "day=1970-01-03" in out
    planned = json.loads(run(capsys, "plan", path, "--json")[1])
    assert (planned["kept"], planned["skipped"]) == (4, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("history", "/no/such/place"), "does not exist"),
        (("plan", "{path}", "--where", "nope = 1"), "no column nope"),
        (("detail", "{path}", "--version", "7"), "version 7"),
    ],
)
def test_errors_are_one_line(capsys, path, arguments, message):
    code, out, err = run(capsys, *[a.replace("{path}", path) for a in arguments])
    assert code == 1
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_pyspark_is_not_imported(path):
    program = (
        "import sys; from lakemend import cli\n"
        "try:\n    cli.main(['detail', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "sys.exit('pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, env={"PYTHONPATH": "src"}
    )
    assert done.returncode == 0, done.stderr


def test_what_a_terminal_would_obey_is_shown(capsys, tmp_path):
    """Names, values and operations of a table are whatever its writer put there."""
    evil = "\x1b]0;owned\x07\x1b[2J\u202egpj\x9b31m"
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": f"a{evil}", "type": "long", "nullable": True, "metadata": {}},
                                           {"name": "p", "type": "string", "nullable": True}]}  # fmt: skip
    metadata = {"id": "x", "format": {"provider": "parquet"}, "schemaString": json.dumps(schema), "description": evil,
                "partitionColumns": ["p"], "configuration": {f"k{evil}": evil}}  # fmt: skip
    info = {"timestamp": 1e300, "operation": f"WRITE{evil}\nforged", "operationParameters": {"x": evil}}
    add = {"path": f"p=x/{evil}".replace("\x07", ""), "partitionValues": {"p": evil}, "size": 1, "dataChange": True}
    actions = [{"commitInfo": info}, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
               {"metaData": metadata}, {"add": add}]  # fmt: skip
    (log / f"{0:020d}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))
    for command in (["history"], ["files"], ["detail"], ["plan"], ["plan", "--where", f"b{evil} = 1"]):
        for more in ([], ["--json"]):
            code, out, err = run(capsys, command[0], str(tmp_path / "t"), *command[1:], *more)
            assert not any(c in out + err for c in "\x1b\x07\x9b\u202e"), (command, more)
            if more and not code:
                json.loads(out)


@pytest.fixture
def warehouse(tmp_path):
    """The tables shop.orders and shop.`odd name`, and one in a namespace below."""
    brain = Brain({"lake": str(tmp_path / "warehouse")})
    for namespace, name in ((["shop"], "orders"), (["shop"], "odd name"), (["shop", "eu"], "orders")):
        table = {"catalog": "lake", "namespace": namespace, "name": name}
        if not brain.ask("catalog", {"action": "list_namespaces", "catalog": "lake", "namespace": []})["namespaces"][
            1:
        ]:
            brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["shop"]})
            brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["shop", "eu"]})
        staged = brain.ask("stage", {"table": table, "mode": "create", "schema": struct(("id", "long"))})
        brain.ask("commit", {"table": table, "version": None, "operation": "append", "command": "CREATE TABLE",
                             "staged": staged["staged"], "token": name})  # fmt: skip
    return str(tmp_path / "warehouse")


def test_a_warehouse_that_is_not_there(capsys, warehouse, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    nowhere = str(tmp_path / "nowhere")
    for arguments in (["--warehouse", nowhere], [nowhere], ["./nowhere"], [nowhere, "--json"]):
        code, out, err = run(capsys, "ls", *arguments)
        assert (code, out) == (1, "") and "there is no warehouse" in err and nowhere in err
    code, _, err = run(capsys, "ls", "shop.nothing", "--warehouse", warehouse)
    assert code == 1 and "shop.nothing" in err
    (tmp_path / "nowhere").mkdir()
    assert run(capsys, "ls", "./nowhere") == (0, "", "")
    assert run(capsys, "ls", warehouse) == run(capsys, "ls", "--warehouse", warehouse)


def test_tables_by_name(capsys, warehouse, monkeypatch, tmp_path):
    names = ["shop.`odd name`", "shop.orders", "shop.eu.orders"]
    assert run(capsys, "ls", "--warehouse", warehouse)[1].split("\n")[:-1] == names
    assert json.loads(run(capsys, "ls", "shop.eu", "--warehouse", warehouse, "--json")[1]) == names[2:]
    for name in [*names, "lake.shop.orders"]:
        assert run(capsys, "history", name, "--warehouse", warehouse)[0] == 0
    for command in ("files", "detail", "plan"):
        assert run(capsys, command, "shop.orders", "--warehouse", warehouse)[0] == 0
    assert run(capsys, "vacuum", "shop.orders", "--dry-run", "--warehouse", warehouse)[0] == 0
    monkeypatch.chdir(tmp_path)  # a session's own warehouse is found
    assert run(capsys, "detail", "shop.orders")[0] == 0
    code, _, err = run(capsys, "detail", "shop.nothing")
    assert code == 1 and "shop.nothing" in err


def test_errors_for_programs(capsys, path):
    code, out, err = run(capsys, "detail", path, "--version", "7", "--json")
    assert (code, out) == (1, "")
    error = json.loads(err)["error"]
    assert error["class"] == "VersionNotFoundError" and error["values"]["version"] == 7
    assert run(capsys, "detail", path, "--no-such-option")[0] == 2
