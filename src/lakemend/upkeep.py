"""`lakemend checkpoint | health | restore | vacuum TABLE`: commands that look after a table, without Spark.

`cli.py` takes them in. What is asked of a table is the brain's; here it is only asked and printed.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import click

from lakemend.printed import (
    SHOWN_FILES,
    age_text,
    as_json,
    in_warehouse,
    look_up,
    on_table,
    print_json,
    print_rest,
    print_table,
    visible,
)
from lakemend.report import Report
from lakemend.shown import size_text, time_text


@click.command()
@on_table
@in_warehouse
@click.option(
    "--retain",
    default=None,
    metavar="AGE",
    help='Keep what versions of this long needed, such as "12 hours"; the table\'s retention unless given.',
)
@click.option("--dry-run", is_flag=True, help="Only list the files.")
@click.option("--lose-history", is_flag=True, help="Allow less than the table's retention. Nobody may be writing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def vacuum(
    table: str, warehouse: str, retain: str | None, dry_run: bool, lose_history: bool, yes: bool, as_json: bool
) -> None:
    """Delete the files that no version of the table needs any more."""
    brain, identity = look_up(table, warehouse)
    planned: Report = brain.vacuum(identity, retain, dry_run=True)
    assert planned.plan is not None
    short = planned.plan["retain"] < planned.plan["retention"] and not lose_history
    if dry_run or short or not planned.files_removed:
        # Where nothing is to go, and where it is refused, nobody has to agree.
        report = planned if dry_run else brain.vacuum(identity, retain, lose_history=lose_history)
        _print_leftovers(report, as_json)
        return
    if not as_json:
        _print_leftovers(planned, as_json)
    _agree(f"Delete {planned.files_removed} files?", yes)
    report = brain.vacuum(identity, retain, lose_history=lose_history)
    failed = report.plan["failed"] if report.plan else []
    if as_json:
        _print_leftovers(report, as_json)
    else:
        click.echo(
            f"version {report.version}: {report.files_removed} files ({size_text(report.bytes_removed)}) deleted"
        )
    if failed:
        click.echo(f"lakemend: {len(failed)} files could not be deleted, such as {failed[0]}", err=True)
        sys.exit(1)


def _agree(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to be asked: pass --yes, or look first with --dry-run")
    click.confirm(question, abort=True, err=True)


def _print_leftovers(report: Report, as_json: bool) -> None:
    found = report.plan or {}
    unneeded = found["files"]
    if as_json:
        return print_json({**found, "bytes": report.bytes_removed, "dry_run": report.dry_run})
    rows = [
        (f["path"], f["kind"], size_text(f["size"]), age_text(f["age"]), time_text(f["removed"]) or "in no version")
        for f in unneeded[:SHOWN_FILES]
    ]
    print_table(("path", "kind", "size", "age", "removed (UTC)"), rows)
    print_rest(len(unneeded))
    click.echo(
        f"version {found['version']}: {len(unneeded)} files ({size_text(report.bytes_removed)}) that no version of the "
        f"last {age_text(found['retain'])} needs"
    )
    if found["younger"]:
        click.echo(f"{found['younger']} younger ones may belong to writes under way")
    if found["foreign"]:
        click.echo(f"{found['foreign']} others are no files of a table, and stay")
    return None


@click.command()
@on_table
@in_warehouse
@click.option("--version", type=click.IntRange(min=0), default=None, help="The version to go back to.")
@click.option("--timestamp", default=None, help='Or a time, such as "2026-01-31 12:00:00" (UTC, unless it has a zone).')
@click.option("--dry-run", is_flag=True, help="Only tell what would come and go.")
@as_json
def restore(
    table: str, warehouse: str, version: int | None, timestamp: str | None, dry_run: bool, as_json: bool
) -> None:
    """Make an earlier version of the table its newest one."""
    if (version is None) == (timestamp is None):
        raise click.UsageError("pass --version or --timestamp")
    micros = None if timestamp is None else _micros(timestamp)
    brain, identity = look_up(table, warehouse)
    report = brain.restore(identity, version=version, timestamp=micros, asked=timestamp, dry_run=dry_run)
    print_json(report.to_dict()) if as_json else click.echo(visible(str(report)))


def _micros(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no time such as 2026-01-31 12:00:00") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@click.command()
@on_table
@in_warehouse
@click.option("--dry-run", is_flag=True, help="Only tell whether one is missing.")
@as_json
def checkpoint(table: str, warehouse: str, dry_run: bool, as_json: bool) -> None:
    """Write a checkpoint of the newest version, if there is none."""
    brain, identity = look_up(table, warehouse)
    report = brain.checkpoint(identity, dry_run=dry_run)
    if as_json:
        return print_json(report.to_dict())
    done = report.plan or {}
    said = "there is a checkpoint already"
    if done["written"]:
        said = "a checkpoint would be written" if dry_run else "checkpoint written"
    return click.echo(f"version {done['version']}: {said}")


@click.command()
@on_table
@in_warehouse
@click.option("--leftovers", is_flag=True, help="Also list the files that a vacuum would take.")
@as_json
def health(table: str, warehouse: str, leftovers: bool, as_json: bool) -> None:
    """What should be done about the table, and by which command."""
    brain, identity = look_up(table, warehouse)
    found = brain.health(identity, leftovers=leftovers)
    print_json(found.to_dict()) if as_json else click.echo("\n".join(map(visible, str(found).split("\n"))))


COMMANDS = (checkpoint, health, restore, vacuum)
