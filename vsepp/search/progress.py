"""What adding photos shows on standard error: photos/s and the time left."""

import sys
import time
from collections.abc import Iterable
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from vsepp.search.report import Report

BETWEEN_LINES = 10.0  # seconds, where there is no terminal to keep a line alive in


def watched(reports: Iterable[Report]) -> Report:
    """Show the reports as they come; the last one is returned."""
    console = Console(file=sys.stderr)
    columns = BarColumn(), TextColumn("{task.description}")
    started = said = time.perf_counter()
    first: Report | None = None
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("looking for photos")
        for report in reports:
            first = first or report
            now = time.perf_counter()
            line = _line(report, report.done - first.done, now - started)
            bar.update(task, description=line, completed=report.done, total=report.total)
            if not console.is_terminal and now - said >= BETWEEN_LINES:
                said = now
                print(line, file=sys.stderr)
    return report


def _line(report: Report, done_here: int, seconds: float) -> str:
    """What earlier runs have done counts as done, not as speed."""
    line = f"{report.done:,} of {report.total:,} photos"
    if report.shards:
        line = f"{report.done:,} photos, {report.shards_done:,} of {report.shards:,} shards"
    if not done_here:
        return line
    line = f"{line}, {done_here / seconds:,.0f} photos/s"
    if report.shards:
        return line
    left = timedelta(seconds=round((report.total - report.done) * seconds / done_here))
    return f"{line}, {left} left"
