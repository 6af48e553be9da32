"""The verb that measures one model, and what it shares with those that compare."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from vsepp.cli.measuring_options import (
    Captions,
    Cxc,
    Eccv,
    Full,
    Ids,
    ImageIds,
    Images,
    Judgements,
    Ks,
    Name,
    OptionalData,
    OptionalSnapshot,
    PerQuery,
    Pictures,
    Pmrp,
    Probes,
    Protocol,
    Resamples,
    SaveVectors,
    Scores,
    Split,
    TableForm,
)
from vsepp.cli.verbs import Changes, Json, app, say, speaks, track, use_keys, verbs_among
from vsepp.errors import WrongRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vsepp.evaluation.measurement import Extras
    from vsepp.experiments.comparisons.benchmark import Measured
    from vsepp.experiments.comparisons.vectors import Data

verb = verbs_among(app, "Train and evaluate")


@verb
def evaluate(
    snapshot: OptionalSnapshot = None,
    data: OptionalData = None,
    split: Split = "test",
    protocol: Protocol = "full",
    changes: Changes = None,
    as_json: Json = False,
    images: Images = None,
    captions: Captions = None,
    scores: Scores = None,
    ids: Ids = None,
    image_ids: ImageIds = None,
    full: Full = False,
    ks: Ks = "1,5,10",
    resamples: Resamples = 10_000,
    eccv: Eccv = None,
    cxc: Cxc = None,
    pmrp: Pmrp = None,
    judgements: Judgements = None,
    probes: Probes = None,
    pictures: Pictures = None,
    table: TableForm = "text",
    per_query: PerQuery = None,
    save_vectors: SaveVectors = None,
    name: Name = "",
) -> None:
    """R@K of a model, in the paper's columns; or everything, of a model or of anybody's vectors."""
    extras = extras_of(ks, resamples, eccv, cxc, pmrp, judgements)
    more = full, eccv, cxc, pmrp, judgements, probes, per_query, save_vectors
    _check_request(snapshot, data, images or captions or scores, probes or save_vectors, per_query)
    if images or captions or scores:
        found = _measure_files((images, captions, ids, image_ids, scores), name, protocol, extras)
    elif any(more) or ks != "1,5,10" or table != "text":
        model, on = f"{name}={snapshot}", open_on(str(data), split, changes)
        found = _measure_snapshot(model, on, protocol, extras, probes, pictures)
    else:
        _evaluate_plainly(snapshot, name, data, split, protocol, changes, as_json)
        return
    _report(found, as_json, table, per_query, save_vectors)


def _check_request(
    snapshot: Path | None,
    data: str | None,
    vectors: Path | None,
    needs_model: object,
    per_query: Path | None,
) -> None:
    if vectors and (snapshot or data):
        raise WrongRequest("Name a model and its data, or files of vectors, and not both.")
    if not vectors and (snapshot is None or data is None):
        raise WrongRequest(
            "Name a model and its data: vsepp evaluate SNAPSHOT --data DATA; or files of vectors: "
            "vsepp evaluate --images I.npy --captions C.npy --ids ids.csv"
        )
    if vectors and needs_model:
        raise WrongRequest("--probes and --save-vectors need a model, not its vectors.")
    if per_query:
        from vsepp.evaluation.reports.per_query import check_target

        check_target(per_query)


def _evaluate_plainly(
    snapshot: Path | None,
    name: str,
    data: str | None,
    split: str,
    protocol: str,
    changes: list[str] | None,
    as_json: bool,
) -> None:
    """The paper's columns; several processes may share the work."""
    from vsepp.evaluation.reports.paper_table import text
    from vsepp.experiments.measure import measure

    assert snapshot is not None and data is not None
    result, left_out = measure(snapshot, data, split, protocol, use_keys(changes), track)
    _say_left_out(left_out)
    if speaks():
        print(json.dumps(result.as_dict()) if as_json else text([(name or snapshot.name, result)]))


def _measure_files(
    files: "Sequence[Path | None]", name: str, protocol: str, extras: "Extras"
) -> "Measured":
    from vsepp.evaluation.embedding_files import read_embeddings
    from vsepp.evaluation.measurement import measure_embeddings
    from vsepp.experiments.comparisons.benchmark import Measured

    images, captions, ids, image_ids, scores = files
    file = scores or images
    # files are called images.npy, or i.npy: their folder says more
    name = name or (file.resolve().parent.name if file else "")
    embeddings = read_embeddings(images, captions, ids, image_ids, scores, name)
    return Measured(embeddings, measure_embeddings(embeddings, protocol, extras))


def _measure_snapshot(
    model: str,
    on: "Data",
    protocol: str,
    extras: "Extras",
    probes: list[str] | None,
    pictures: Path | None,
) -> "Measured":
    from vsepp.experiments.comparisons.benchmark import measure_model
    from vsepp.experiments.comparisons.probing import open_probes

    opened = open_probes(probes or (), pictures, on)
    return measure_model(model, on, protocol, extras, opened)


def open_on(data: str, split: str, changes: list[str] | None) -> "Data":
    from vsepp.experiments.comparisons.vectors import open_split

    on = open_split(data, split, use_keys(changes))
    _say_left_out(on.left_out)
    return on


def _say_left_out(left_out: "Sequence[str]") -> None:
    from vsepp.data.collections import summarize_left_out

    if left_out:
        say(summarize_left_out(left_out))


def _report(
    found: "Measured", as_json: bool, table: str, per_query: Path | None, vectors: Path | None
) -> None:
    from vsepp.evaluation.reports.forms import render
    from vsepp.evaluation.reports.per_query import write_per_query
    from vsepp.evaluation.reports.tables import report_tables
    from vsepp.experiments.comparisons.vectors import save_vectors

    if vectors:
        save_vectors(found.embeddings, vectors)
    if per_query:
        write_per_query(per_query, found.result, found.embeddings)
    say_remarks([found])
    tables = report_tables(found.result)
    print(json.dumps(found.result.as_dict()) if as_json else render(tables, table))


def say_remarks(measured: "Sequence[Measured]") -> None:
    for one in measured:
        for remark in one.result.remarks:
            say(f"{one.result.name}: {remark}")


def extras_of(
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
    for option, path in (("cxc", cxc), ("judgements", judgements)):
        if path and not path.is_dir():
            raise WrongRequest(f"--{option} {path}: there is no such folder.")
    if pmrp and not pmrp.is_file():
        raise WrongRequest(f"--pmrp {pmrp}: there is no such file.")
    folder = None if eccv is None else Path(eccv)
    if eccv == "package":
        folder = eccv_caption_folder()
        if folder is None:
            raise WrongRequest("ECCV Caption is not installed: pip install eccv_caption")
    return Extras(numbers, resamples, 0, folder, cxc, pmrp, judgements)
