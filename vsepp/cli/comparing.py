"""Verbs that set models side by side, and look at the data that they are measured on."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsepp.cli.measuring import extras_of, open_on, say_remarks, verb
from vsepp.cli.measuring_options import (
    Cxc,
    Eccv,
    Judgements,
    Ks,
    Models,
    OptionalData,
    Page,
    PerQueryFolder,
    Pictures,
    Pmrp,
    Probes,
    Protocol,
    Resamples,
    Split,
    TableForm,
)
from vsepp.cli.verbs import Changes, Json, say, use_keys
from vsepp.errors import WrongRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vsepp.evaluation.measurement import Extras
    from vsepp.experiments.comparisons.benchmark import Measured
    from vsepp.experiments.comparisons.probing import Probing
    from vsepp.experiments.comparisons.vectors import Data


@verb
def compare(
    models: Models,
    data: OptionalData = None,
    split: Split = "test",
    protocol: Protocol = "full",
    changes: Changes = None,
    into: Page = None,
    ks: Ks = "1,5,10",
    resamples: Resamples = 10_000,
    eccv: Eccv = None,
    cxc: Cxc = None,
    pmrp: Pmrp = None,
    judgements: Judgements = None,
    probes: Probes = None,
    pictures: Pictures = None,
    table: TableForm = "text",
    per_query: PerQueryFolder = None,
    as_json: Json = False,
) -> None:
    """Models side by side on the same queries: intervals, tests, power, and a page to look at."""
    from vsepp.experiments.comparisons.benchmark import check_same_queries, comparison
    from vsepp.experiments.comparisons.probing import open_probes

    if len(models) < 2:
        raise WrongRequest("Name two models or more: vsepp compare A B --data DATA")
    on = open_on(data, split, changes) if data else None
    extras = extras_of(ks, resamples, eccv, cxc, pmrp, judgements)
    opened = open_probes(probes or (), pictures, on)
    measured = _measure_in_one_order(models, on, protocol, extras, opened)
    check_same_queries(measured)
    say_remarks(measured)
    if per_query:
        _write_per_query(per_query, measured)
    if into:
        _write_comparison(into, measured, on)
    print(json.dumps(comparison(measured, on)) if as_json else _tables(measured, table))


def _measure_in_one_order(
    models: list[str], on: "Data | None", protocol: str, extras: "Extras", probing: "Probing"
) -> "list[Measured]":
    from vsepp.experiments.comparisons.benchmark import measure_model

    first = measure_model(models[0], on, protocol, extras, probing)
    extras = replace(extras, overlap=False)  # the same for all models
    others = (
        measure_model(model, on, protocol, extras, probing, first.embeddings)
        for model in models[1:]
    )
    return [first, *others]


def _tables(measured: "Sequence[Measured]", form: str) -> str:
    from vsepp.evaluation.reports.forms import render
    from vsepp.evaluation.reports.tables import comparison_tables

    return render(comparison_tables([one.result for one in measured]), form)


def _write_comparison(into: Path, measured: "Sequence[Measured]", on: "Data | None") -> None:
    from vsepp.evaluation.reports.comparison_page import Model, comparison_page
    from vsepp.evaluation.reports.page import Photos

    shown = [Model(one.embeddings, one.result) for one in measured]
    _write_page(into, comparison_page(shown, Photos(on.by_key if on else {})))


def _write_per_query(folder: Path, measured: "Sequence[Measured]") -> None:
    """A file for each model, in the order in which they were named."""
    from vsepp.evaluation.reports.per_query import write_per_query

    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(measured, 1):
        name = re.sub(r"[^\w.+-]+", "-", one.result.name)
        write_per_query(folder / f"{number}-{name}.csv", one.result, one.embeddings)


def _write_page(into: Path, page: str) -> None:
    into.write_text(page, encoding="utf-8")
    say(f"Look at it: {into}")


@verb
def audit(
    models: Models,
    data: Annotated[str, typer.Option(help="A path, or shapes:N for the built-in world.")],
    into: Annotated[Path, typer.Option(help="The page that is written, such as audit.html.")],
    split: Split = "test",
    changes: Changes = None,
) -> None:
    """Look for what is wrong with a collection as a test: leaks, captions that fit several photos."""
    from vsepp.data.collections import open_data
    from vsepp.evaluation.audit.findings import audit as look_at
    from vsepp.evaluation.audit.page import audit_page, summary_table
    from vsepp.evaluation.reports.forms import render
    from vsepp.evaluation.reports.page import Photos
    from vsepp.experiments.comparisons.benchmark import measure_model
    from vsepp.experiments.comparisons.vectors import open_split

    keys = use_keys(changes)
    on = open_split(data, split, keys)
    others = [item for item in open_data(data, keys.on_error).items if item.split != split]
    measured = [measure_model(model, on) for model in models]
    embeddings = [one.embeddings for one in measured]
    found = look_at(on.items, others, embeddings, [one.result for one in measured])
    photos = Photos(on.by_key | {item.key: item for item in others})
    page = audit_page(found, embeddings[0], measured[0].result, photos)
    print(render([summary_table(found, embeddings[0])]))
    _write_page(into, page)
