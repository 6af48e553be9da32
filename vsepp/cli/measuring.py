"""Verbs that measure models: one alone, several side by side, and the data that they are measured on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsepp.cli.verbs import Changes, Json, app, say, speaks, track, use_keys, verbs_among
from vsepp.errors import WrongRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vsepp.evaluation.measurement import Extras, Measurement

verb = verbs_among(app, "Train and evaluate")

OptionalData = Annotated[
    str | None, typer.Option("--data", help="A path, or shapes:N for the built-in world.")
]
Split = Annotated[str, typer.Option(help="The split to measure on.")]
Protocol = Annotated[str, typer.Option(help="full, 1k, 5x1k or 5k.")]
Models = Annotated[
    list[str],
    typer.Argument(
        help="Models: PATH or NAME=PATH; a folder that vsepp train made, or one of vectors. "
        "Several paths with commas between are seeds of one model."
    ),
]
Resamples = Annotated[int, typer.Option(help="Of the bootstrap over images.", min=100)]
Judgements = Annotated[
    Path | None, typer.Option(help="The folder of Flickr8k's judgements by experts and crowd.")
]
Probes = Annotated[
    list[str] | None,
    typer.Option(
        help="captions (words of --data exchanged), world (the built-in one), or a file of "
        "SugarCrepe, ARO, FOIL or Winoground. May be repeated."
    ),
]
Pictures = Annotated[Path | None, typer.Option(help="The pictures of the probes' file.")]
TableForm = Annotated[str, typer.Option("--table", help="text, markdown, latex or html.")]


@verb
def evaluate(
    snapshot: Annotated[Path | None, typer.Argument(help="A folder that vsepp train made.")] = None,
    data: OptionalData = None,
    split: Split = "test",
    protocol: Protocol = "full",
    changes: Changes = None,
    as_json: Json = False,
    images: Annotated[
        Path | None, typer.Option(help="Vectors of images: .npy, .npz, .safetensors, .parquet.")
    ] = None,
    captions: Annotated[Path | None, typer.Option(help="Vectors of captions.")] = None,
    scores: Annotated[
        Path | None, typer.Option(help="All scores (images, captions), instead of vectors.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="A table with a row for each caption: image_id,caption_id,caption."),
    ] = None,
    image_ids: Annotated[
        Path | None, typer.Option(help="The id of each image vector, one a line.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="All measures with their intervals, also of a model.")
    ] = False,
    ks: Annotated[str, typer.Option("--k", help="The K of R@K, with commas.")] = "1,5,10",
    resamples: Resamples = 10_000,
    eccv: Annotated[
        str | None,
        typer.Option(help="ECCV Caption: `package`, or the folder of its json files."),
    ] = None,
    cxc: Annotated[
        Path | None, typer.Option(help="Crisscrossed Captions: the folder of its csv files.")
    ] = None,
    pmrp: Annotated[Path | None, typer.Option(help="COCO's instances_val2014.json.")] = None,
    judgements: Judgements = None,
    probes: Probes = None,
    pictures: Pictures = None,
    table: TableForm = "text",
    per_query: Annotated[
        Path | None, typer.Option(help="Write ranks and best items: .csv, .jsonl or .parquet.")
    ] = None,
    save_vectors: Annotated[
        Path | None, typer.Option(help="Write the vectors, to compare them later.")
    ] = None,
) -> None:
    """R@K of a model, in the paper's columns; or everything, of a model or of anybody's vectors."""
    extras = _extras(ks, resamples, eccv, cxc, pmrp, judgements)
    from_files = images is not None or captions is not None or scores is not None
    more = (eccv, cxc, pmrp, judgements, probes, per_query, save_vectors)
    is_plain = not (full or from_files or any(more) or ks != "1,5,10" or table != "text")
    if from_files and snapshot is not None:
        raise WrongRequest("Name a model, or files of vectors, and not both.")
    if not from_files and (snapshot is None or data is None):
        raise WrongRequest(
            "Name a model and its data: vsepp evaluate SNAPSHOT --data DATA; or files of vectors: "
            "vsepp evaluate --images I.npy --captions C.npy --ids ids.csv"
        )
    if is_plain:
        assert snapshot is not None and data is not None
        _evaluate_plainly(snapshot, data, split, protocol, changes, as_json)
        return

    from vsepp.evaluation.embedding_files import read_embeddings
    from vsepp.evaluation.measurement import measure_embeddings
    from vsepp.evaluation.reports.per_query import check_suffix, write_per_query
    from vsepp.experiments.benchmark import measure_model, open_probes, open_split
    from vsepp.experiments.benchmark import save_vectors as write_vectors

    if per_query:
        check_suffix(per_query)
    if from_files:
        if probes or save_vectors:
            raise WrongRequest("--probes and --save-vectors need a model, not its vectors.")
        embeddings = read_embeddings(images, captions, ids, image_ids, scores)
        result = measure_embeddings(embeddings, protocol, extras)
    else:
        assert data is not None
        on = open_split(data, split, use_keys(changes))
        _say_left_out(on.left_out)
        opened = open_probes(probes or (), pictures, on)
        measured = measure_model(str(snapshot), on, protocol, extras, opened)
        embeddings, result = measured.embeddings, measured.result
    if save_vectors:
        write_vectors(embeddings, save_vectors)
    if per_query:
        write_per_query(per_query, result, embeddings)
    _print_report(result, as_json, table)


def _evaluate_plainly(
    snapshot: Path, data: str, split: str, protocol: str, changes: list[str] | None, as_json: bool
) -> None:
    """The paper's columns; several processes may share the work."""
    from vsepp.evaluation.reports.paper_table import text
    from vsepp.experiments.measure import measure

    result, left_out = measure(snapshot, data, split, protocol, use_keys(changes), track)
    _say_left_out(left_out)
    if speaks():
        print(json.dumps(result.as_dict()) if as_json else text([(snapshot.name, result)]))


def _say_left_out(left_out: "Sequence[str]") -> None:
    from vsepp.data.collections import summarize_left_out

    if left_out:
        say(summarize_left_out(left_out))


def _extras(
    ks: str,
    resamples: int,
    eccv: str | None,
    cxc: Path | None,
    pmrp: Path | None,
    judgements: Path | None,
) -> "Extras":
    from vsepp.evaluation.annotations.eccv_caption import eccv_caption_folder
    from vsepp.evaluation.measurement import Extras

    try:
        numbers = tuple(sorted({int(k) for k in ks.split(",")}))
    except ValueError:
        numbers = (0,)
    if min(numbers) < 1:
        raise WrongRequest(f"--k {ks}: expected whole numbers with commas between, such as 1,5,10.")
    folder = None if eccv is None else Path(eccv)
    if eccv == "package":
        folder = eccv_caption_folder()
        if folder is None:
            raise WrongRequest("ECCV Caption is not installed: pip install eccv_caption")
    return Extras(numbers, resamples, 0, folder, cxc, pmrp, judgements)


def _print_report(result: "Measurement", as_json: bool, table: str) -> None:
    from vsepp.evaluation.reports.tables import render, report_tables

    for remark in result.remarks:
        say(remark)
    print(json.dumps(result.as_dict()) if as_json else render(report_tables(result), table))


@verb
def compare(
    models: Models,
    data: OptionalData = None,
    split: Split = "test",
    protocol: Protocol = "full",
    changes: Changes = None,
    into: Annotated[
        Path | None, typer.Option(help="Write a page that shows on which queries models differ.")
    ] = None,
    resamples: Resamples = 10_000,
    judgements: Judgements = None,
    probes: Probes = None,
    pictures: Pictures = None,
    table: TableForm = "text",
    as_json: Json = False,
) -> None:
    """Models side by side on the same queries: intervals, tests, power, and a page to look at."""
    from vsepp.evaluation.measurement import Extras
    from vsepp.evaluation.reports.comparison_page import Model, comparison_page
    from vsepp.evaluation.reports.page import Photos
    from vsepp.evaluation.reports.tables import comparison_tables, render
    from vsepp.experiments.benchmark import comparison, measure_model, open_probes, open_split

    if len(models) < 2:
        raise WrongRequest("Name two models or more: vsepp compare A B --data DATA")
    on = open_split(data, split, use_keys(changes)) if data else None
    if on:
        _say_left_out(on.left_out)
    extras = Extras(resamples=resamples, judgements=judgements)
    opened = open_probes(probes or (), pictures, on)
    measured = [measure_model(models[0], on, protocol, extras, opened)]
    extras = replace(extras, overlap=False)  # the same for all models
    measured += [measure_model(model, on, protocol, extras, opened) for model in models[1:]]
    found = comparison(measured)
    if into:
        photos = Photos(on.by_key if on else {})
        shown = [Model(one.embeddings, one.result) for one in measured]
        into.write_text(comparison_page(shown, photos), encoding="utf-8")
        say(f"Look at it: {into}")
    results = [one.result for one in measured]
    print(json.dumps(found) if as_json else render(comparison_tables(results), table))


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
    from vsepp.evaluation.reports.page import Photos
    from vsepp.evaluation.reports.tables import render
    from vsepp.experiments.benchmark import measure_model, open_split

    keys = use_keys(changes)
    on = open_split(data, split, keys)
    others = [item for item in open_data(data, keys.on_error).items if item.split != split]
    measured = [measure_model(model, on) for model in models]
    embeddings = [one.embeddings for one in measured]
    found = look_at(on.items, others, embeddings, [one.result for one in measured])
    photos = Photos(on.by_key | {item.key: item for item in others})
    page = audit_page(found, embeddings[0], measured[0].result, photos)
    into.write_text(page, encoding="utf-8")
    print(render([summary_table(found, embeddings[0])]))
    say(f"Look at it: {into}")
