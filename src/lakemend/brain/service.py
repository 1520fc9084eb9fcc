"""The brain: everything the connector asks, through one method that takes and gives JSON.

The session registers a `Brain` with the JVM; the connector calls `call`, Python calls `ask`, both
with the operations of docs/architecture.md. Nothing is thrown across the wire: an error is an answer.
Calls come from many threads at once; a Brain keeps no state per thread.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pyarrow as pa

from lakemend.advice import JoinAdvice
from lakemend.brain import abort, alter, facts, feed, grouping, health, load, restore, vacuum, write
from lakemend.brain.addresses import Address, address_of, catalog_of
from lakemend.brain.commands import procedures
from lakemend.brain.commands.statement import statement
from lakemend.brain.every_row import every_row
from lakemend.brain.first_rows import first_rows
from lakemend.brain.join_advice import advise
from lakemend.brain.join_sides import JoinSettings
from lakemend.brain.known_formats import known_formats
from lakemend.brain.options import require_known
from lakemend.brain.plan import plan
from lakemend.brain.predicates import conjunction, evaluate, of_snapshot
from lakemend.brain.replacement import replaced
from lakemend.brain.small_files import SmallFiles, small_files
from lakemend.brain.tables import OpenTable, Tables, version_number
from lakemend.brain.totals import totals
from lakemend.errors import InvalidInputError, LakemendError, SessionError, StorageError
from lakemend.formats.format import Format, Snapshot
from lakemend.formats.zone import in_zone, padding_chars
from lakemend.health import Health
from lakemend.redaction import logger
from lakemend.report import Report

log = logger(__name__)

_REMEMBERED = 1000  # reports nobody has fetched, tables staged


class Brain:
    """`catalogs` maps a catalog's name to its warehouse."""

    def __init__(self, catalogs: Mapping[str, str] | None = None, formats: dict[str, Format] | None = None) -> None:
        self.catalogs: dict[str, str] = dict(catalogs or {})
        self.tables = Tables(formats if formats is not None else known_formats())
        self._reports: OrderedDict[str, Report] = OrderedDict()
        self._read_at: dict[str, int] = {}  # by request id: the version of which it has read every row
        # What a session does about small files that a write leaves; without Spark there is nobody to do it.
        self.compact_small_files: Callable[[SmallFiles], None] | None = None
        # Statements and procedures that a session runs in Python; the rows of their results.
        self.run_command: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None
        self._staged: OrderedDict[bytes, str] = OrderedDict()  # identity → location of a table to be created
        self._lock = threading.Lock()
        self._operations: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "load": lambda r: load.load(self._address(r), r),
            "plan": self._plan,
            "grouping": grouping.is_wanted,
            "totals": self._totals,
            "deletable": self._deletable,
            "replace_where": self._replace_where,
            "stage": self._stage,
            "commit": self._commit,
            "abort": self._abort,
            "alter": lambda r: alter.alter(self._address(r), r),
            "feed": lambda r: feed.changes(self._address(r), r),
            "catalog": self._catalog,
            "options": self._options,
            "command": lambda r: statement(r, self._exists),
            "procedures": procedures.listed,
            "procedure": procedures.bound,
            "run": self._run,
        }

    # ---- the wire

    def call(self, op: str, payload: str) -> str:
        """One request of the connector. Never raises."""
        try:
            return orjson.dumps(self.ask(op, orjson.loads(payload)), option=orjson.OPT_NON_STR_KEYS).decode()
        except LakemendError as error:
            log.info("%s failed: %s", op, error)
            return _error(error)
        except Exception as error:
            log.exception("%s failed unexpectedly", op)
            unexpected = LakemendError(
                f"{op} failed unexpectedly: {type(error).__name__}: {error}",
                cause="this is a defect of Lakemend, or a storage it does not know how to read",
                remedy="report it with the traceback in the log of the Python process",
                type=type(error).__name__,
            )
            return _error(unexpected)

    def ask(self, op: str, request: dict[str, Any]) -> dict[str, Any]:
        """The same from Python: an answer, or the typed error."""
        operation = self._operations.get(op)
        if operation is None:
            raise InvalidInputError(
                f"the brain has no operation {op!r}",
                cause=f"it has: {', '.join(self._operations)}",
                remedy="the connector and the Python package are of different versions: install them together",
            )
        if not isinstance(request, dict):
            raise InvalidInputError(f"the request of {op} is not an object", remedy="send a JSON object")
        try:
            with in_zone(request.get("time_zone")), padding_chars(request.get("pad_chars") is True):
                return operation(request)
        except LakemendError:
            raise
        except OSError as error:
            raise StorageError(
                f"{op} could not read or write: {error}",
                cause=type(error).__name__,
                remedy="check that the location is there and may be read and written",
                operation=op,
            ) from error

    def pop_report(self, request: str) -> Report | None:
        """The report of the commit made under a request id, once."""
        with self._lock:
            return self._reports.pop(request, None)

    @contextmanager
    def having_read(self, request: str, version: int) -> Iterator[None]:
        """The write made under a request id rests on every row of its table, as they were at a version: it conflicts
        with
        whatever changed one of them since, or added one."""
        with self._lock:
            self._read_at[request] = version
        try:
            yield
        finally:
            with self._lock:
                del self._read_at[request]

    # ---- what Python asks without the wire

    def history(self, identity: Mapping[str, Any], limit: int | None = None) -> list[dict[str, Any]]:
        opened, _ = load.look_up(self.address(identity), {})
        return facts.history(opened, limit)

    def files(self, identity: Mapping[str, Any], version: int | None = None) -> pa.Table:
        _, snapshot = load.look_up(self.address(identity), {"version": version})
        return facts.files(snapshot)

    def detail(self, identity: Mapping[str, Any], version: int | None = None) -> dict[str, Any]:
        address = self.address(identity)
        opened, snapshot = load.look_up(address, {"version": version})
        return facts.detail(opened, snapshot, address.shown)

    def snapshot(self, identity: Mapping[str, Any], version: int | None = None) -> Snapshot:
        return load.look_up(self.address(identity), {"version": version})[1]

    def first_rows(self, identity: Mapping[str, Any], limit: int, version: int | None = None) -> pa.Table:
        opened, snapshot = load.look_up(self.address(identity), {"version": version})
        return first_rows(opened, snapshot, limit)

    def every_row(
        self,
        identity: Mapping[str, Any],
        version: int,
        columns: Sequence[str] | None,
        file_column: str | None,
        zone: str,
    ) -> pa.Table | None:
        """None where Spark has to read."""
        with in_zone(zone):
            opened, snapshot = load.look_up(self.address(identity), {"version": version})
            chosen = [f["name"] for f in snapshot.metadata.schema["fields"]] if columns is None else columns
            return every_row(opened, snapshot, chosen, file_column, zone)

    def join_advice(
        self,
        left: tuple[Mapping[str, Any], int],
        right: tuple[Mapping[str, Any], int],
        on: object,
        settings: JoinSettings,
    ) -> JoinAdvice:
        """Both sides as (identity, version)."""
        one, other = self.address(left[0]), self.address(right[0])
        return advise(
            (one.shown, load.look_up(one, {"version": left[1]})[1]),
            (other.shown, load.look_up(other, {"version": right[1]})[1]),
            on,
            settings,
        )

    def vacuum(
        self,
        identity: Mapping[str, Any],
        retain: str | timedelta | None = None,
        *,
        dry_run: bool = False,
        lose_history: bool = False,
    ) -> Report:
        address = self.address(identity)
        opened, _ = load.look_up(address, {})
        return vacuum.vacuum(opened, address.shown, retain, dry_run=dry_run, lose_history=lose_history)

    def restore(
        self,
        identity: Mapping[str, Any],
        *,
        version: int | None = None,
        timestamp: int | None = None,
        asked: str | None = None,
        dry_run: bool = False,
    ) -> Report:
        """`timestamp` in microseconds since the epoch, `asked` how it was spelled."""
        address = self.address(identity)
        opened, target = load.look_up(address, {"version": version, "timestamp": timestamp})
        return restore.restore(opened, address.shown, target, timestamp=asked, dry_run=dry_run)

    def checkpoint(self, identity: Mapping[str, Any], *, dry_run: bool = False) -> Report:
        address = self.address(identity)
        opened, _ = load.look_up(address, {})
        return health.checkpoint(opened, address.shown, dry_run=dry_run)

    def health(self, identity: Mapping[str, Any], *, leftovers: bool = False) -> Health:
        address = self.address(identity)
        opened, _ = load.look_up(address, {})
        return health.look(opened, address.shown, leftovers=leftovers)

    def address(self, identity: Mapping[str, Any] | None) -> Address:
        return address_of(identity, self.tables, self.catalogs)

    # ---- operations

    def _address(self, request: Mapping[str, Any]) -> Address:
        return self.address(request.get("table"))

    def _plan(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._address(request).open()
        version = request.get("version")
        snapshot = opened.latest() if version is None else _pinned(opened, request)
        return plan(snapshot, request.get("predicates") or [], request.get("without"))

    def _totals(self, request: dict[str, Any]) -> dict[str, Any]:
        snapshot = _pinned(self._address(request).open(), request)
        return totals(snapshot, request.get("predicates") or [], request["columns"])

    def _deletable(self, request: dict[str, Any]) -> dict[str, Any]:
        """Whether the predicates hold for every row or for none of each file."""
        opened = self._address(request).open()
        snapshot = _pinned(opened, request)
        answers = evaluate(conjunction(request.get("predicates") or []), of_snapshot(snapshot))
        return {"deletable": answers.null_count == 0}

    def _replace_where(self, request: dict[str, Any]) -> dict[str, Any]:
        address = self._address(request)
        return replaced(_pinned(address.open(), request), address.shown, request)

    def _stage(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = load.stage(self._address(request), request)
        with self._lock:
            # An abort names the table alone, and only now is it known where its files go.
            self._staged[_key(request)] = answer["location"]
            while len(self._staged) > _REMEMBERED:
                self._staged.popitem(last=False)
        return answer

    def _commit(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            read_at = self._read_at.get(request.get("request") or "")
        if read_at is not None:
            request = _having_read_everything(request, read_at)
        written = write.commit(self._address(request), request)
        report = self._looked_after(written, request)
        if request.get("request"):
            with self._lock:
                self._reports[request["request"]] = report
                while len(self._reports) > _REMEMBERED:
                    self._reports.popitem(last=False)
        return {"version": None if report.version is None else str(report.version), "report": report.to_dict()}

    def _looked_after(self, written: write.Written, request: dict[str, Any]) -> Report:
        """The write's report. Its version stands: what becomes of small files changes nothing about that."""
        if self.compact_small_files is None:
            return written.report
        started = time.perf_counter()
        try:
            left = small_files(written, request)
            if left is None:
                return written.report
            self.compact_small_files(left)
        except Exception as error:
            log.warning("the write to %s stands, but its small files stay: %s", written.report.table, error)
        seconds = {**written.report.seconds, "compact": time.perf_counter() - started}
        return replace(written.report, seconds=seconds)

    def _abort(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            staged_at = self._staged.get(_key(request)) if request.get("version") is None else None
        abort.abort(self._address(request), request, staged_at)
        return {}

    def _options(self, request: dict[str, Any]) -> dict[str, Any]:
        require_known(request.get("options") or {}, self.tables.formats)
        return {}

    def _exists(self, identity: Mapping[str, Any]) -> bool:
        """True also where it cannot be told: the error is for whoever opens the table."""
        try:
            return self.address(identity).find() is not None
        except (LakemendError, OSError):
            return True

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.run_command is None:
            raise SessionError(
                "this process runs no statements",
                cause="its brain was not made by a Spark session",
                remedy="start one with lakemend.session(…)",
            )
        return {"rows": self.run_command(request)}

    def _catalog(self, request: dict[str, Any]) -> dict[str, Any]:
        action = request.get("action")
        if action in ("table_exists", "drop_table", "rename_table"):
            return self._table_action(action, request)
        catalog = catalog_of(request, self.tables, self.catalogs)
        namespace = list(request.get("namespace") or ())
        if action == "list_tables":
            return {"tables": catalog.list_tables(namespace)}
        if action == "list_namespaces":
            return {"namespaces": catalog.list_namespaces(namespace)}
        if action == "namespace":
            return {"properties": catalog.namespace_properties(namespace)}
        if action == "create_namespace":
            catalog.create_namespace(namespace, dict(request.get("properties") or {}))
            return {}
        if action == "alter_namespace":
            catalog.alter_namespace(namespace, dict(request.get("properties") or {}))
            return {}
        if action == "drop_namespace":
            return {"dropped": catalog.drop_namespace(namespace, bool(request.get("cascade")))}
        raise InvalidInputError(f"the catalog has no action {action!r}", remedy="see docs/architecture.md, catalog")

    def _table_action(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        address = self.address(request.get("table") or request)
        if action == "table_exists":
            return {"exists": address.find() is not None}
        if address.catalog is None:
            raise InvalidInputError(
                f"{address.shown} cannot be dropped or renamed",
                cause="a table by path is in no catalog, and its directory is not Lakemend's to move or delete",
                remedy="move or delete the directory yourself",
            )
        if action == "drop_table":
            return {"dropped": address.catalog.drop_table(address.namespace, address.name)}
        to = self._renamed(address, request.get("to"))
        address.catalog.rename_table((address.namespace, address.name), (to.namespace, to.name))
        return {}

    def _renamed(self, address: Address, to: Any) -> Address:
        if isinstance(to, str):
            to = {**address.identity, "name": to}
        elif isinstance(to, list):
            to = {**address.identity, "namespace": to[:-1], "name": to[-1]}
        target = self.address(to)
        if target.catalog is None or address.catalog is None or target.catalog.warehouse != address.catalog.warehouse:
            raise InvalidInputError(
                f"{address.shown} cannot be renamed to {target.shown}",
                cause="they are in different catalogs",
                remedy="create a new table with CREATE TABLE … AS SELECT",
            )
        return target


def _pinned(opened: OpenTable, request: Mapping[str, Any]) -> Snapshot:
    """The version a request is about, of the table it is about."""
    return opened.pinned(version_number(request["version"]), request.get("table_id"))


def _having_read_everything(request: dict[str, Any], version: int) -> dict[str, Any]:
    reads = [*(request.get("reads_at") or ()), {"version": str(version), "predicates": []}]
    return {**request, "read_predicates": [], "reads_at": reads}


def _key(request: Mapping[str, Any]) -> bytes:
    return orjson.dumps(request.get("table"), option=orjson.OPT_SORT_KEYS)


def _error(error: LakemendError) -> str:
    return orjson.dumps({"error": error.to_payload()}, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
