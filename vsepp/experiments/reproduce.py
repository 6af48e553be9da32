"""Trains a row or a table of the paper, or any recipe, measures it, and compares it with the printed numbers."""

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from vsepp.data.captioned import CaptionedImages, is_plain_name
from vsepp.data.collections import DataOptions, Track, no_progress, open_checked
from vsepp.devices import FirstStopped, init_processes
from vsepp.encoders.architecture import CONFIG, Architecture, read_config
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.evaluation.retrieval import folds
from vsepp.experiments.comparisons.paper import Report, Reproduced, changed_keys, remarks
from vsepp.experiments.measure import measure_on
from vsepp.experiments.progress.health import Stopped
from vsepp.experiments.progress.run_folder import STATE
from vsepp.experiments.progress.watcher import Watcher
from vsepp.experiments.provenance import (
    Fingerprint,
    circumstances,
    differences,
    fingerprint,
    short_name,
    weights_of,
)
from vsepp.experiments.recipe import OF_ONE_RECIPE, Recipe
from vsepp.experiments.recipes.quoted import table_of
from vsepp.experiments.recipes.start import snapshot_to_start_from
from vsepp.experiments.run import run
from vsepp.snapshots.snapshot import Snapshot

MAX_DIFFERENCES = 3  # shown of those between two runs
FINGERPRINT = re.compile(r"-[0-9a-f]{8}(?=$|-seed\d+$)")  # at the end of a folder's name

log = logging.getLogger(__name__)


def reproduce(
    what: str,
    data: str | CaptionedImages,
    into: Path | str,
    changes: Iterable[str] = (),
    track: Track = no_progress,
    *,
    watcher: Watcher | None = None,
) -> Report:
    """Train what a row or recipe needs, or every row of `table:2`, measure it, and compare.

    Finished runs below `into` are reused if recipe, data and weights are the same; interrupted ones
    are resumed. Other runs of the same name get a folder of their own. A result file is written
    beside each run.
    """
    changes, into = list(changes), Path(into)
    is_table = what.startswith("table:")
    table = _table_number(what) if is_table else None
    rows = [e for e in table_of(table) if isinstance(e, str)] if table else [what]
    own = [row for row in rows if not table or row.startswith(f"{table}.")]
    recipes = {row: Recipe.load(row, changes) for row in own}
    if isinstance(data, str):
        data = open_checked(data, DataOptions(recipes[own[0]].data.on_error), track=track)
    for recipe in recipes.values():  # before hours of work, not after them
        if not is_plain_name(recipe.name):
            raise WrongRequest(
                f"A recipe's name becomes a folder's, and {recipe.name!r} cannot be one."
            )
        folds(recipe.protocol, len(data.split("test")))
    done = {
        recipe.name: _reproduce(recipe, row, data, into, changes, watcher)
        for row, recipe in recipes.items()
    }
    return Report(done, table)


def _table_number(what: str) -> int:
    number = what.removeprefix("table:")
    if number not in ("1", "2", "3", "4"):
        raise WrongRequest(f"The paper has table:1 to table:4, not {what!r}.")
    return int(number)


def _reproduce(
    recipe: Recipe, source: str, data: CaptionedImages, into: Path, changes: list[str], watcher: Watcher | None
) -> Reproduced:  # fmt: skip
    """All seeds of a recipe; if one is stopped, the others continue."""
    results, stopped, folders = [], [], []
    places: list[Path] = []  # of all seeds, including stopped ones
    test = data.with_captions(recipe.data.captions)
    for seed in range(recipe.seed, recipe.seed + recipe.seeds):
        try:
            folder = _train(recipe, data, into, changes, seed, watcher)
        except (Stopped, FirstStopped) as error:
            reason, place = _share_stop(error)
            stopped.append(reason)
            places.append(place)
            continue
        results.append(measure_on(Snapshot.load(folder), test, "test", recipe.protocol))
        folders.append(folder)
        places.append(folder)
    models = init_processes().as_first(lambda: [_describe(folder) for folder in folders])
    said = remarks(recipe, source, changes, data, _architecture(folders[0])) if folders else []
    record = {
        "data": data.name,
        "left_out": list(data.left_out),
        "changes": changed_keys(recipe, source, changes),
        "models": models,
        "measured_by": circumstances(),
    }
    row = Reproduced(recipe, results, stopped, said, record)
    own = FINGERPRINT.search(places[0].name)
    file = into / f"{recipe.name}{own[0] if own else ''}.json"
    init_processes().as_first(lambda: _write(row, file))
    return row


def _share_stop(error: WorkFailed) -> tuple[str, Path]:
    """Why the first process stopped a run, and its folder, for all processes."""

    def tell() -> tuple[str, Path]:
        assert isinstance(error, Stopped)  # in the first process
        log.warning(error)
        return error.reason, error.folder

    return init_processes().as_first(tell)


def _write(row: Reproduced, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(row.as_dict(), indent=2, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")


def _architecture(folder: Path) -> Architecture:
    return read_config(folder)[0]


def _describe(folder: Path) -> dict[str, Any]:
    """Folder, weights and provenance of a model."""
    _, notes = read_config(folder)
    keys = ("epoch", "validation_rsum", "made_by", "fingerprint")
    origin = {key: notes.get(key) for key in keys}
    return {"folder": str(folder), "weights": weights_of(folder), **origin}


def _train(
    recipe: Recipe, data: CaptionedImages, into: Path, changes: list[str], seed: int, watcher: Watcher | None
) -> Path:  # fmt: skip
    """The folder of a finished model; trains it, and what it starts from, if necessary."""
    others = [change for change in changes if not change.startswith(OF_ONE_RECIPE)]
    if recipe.model_of:
        return _train(Recipe.load(recipe.model_of, others), data, into, others, seed, watcher)
    recipe = replace(recipe, seed=seed, seeds=1)
    # differs from the paper: its fine-tuning starts from a model of 30 epochs, here from the best of them
    if recipe.start_from and snapshot_to_start_from(recipe.start_from) is None:
        base = _train(Recipe.load(recipe.start_from, others), data, into, others, seed, watcher)
        recipe = replace(recipe, start_from=str(base))
    folder, is_finished = init_processes().as_first(lambda: _find_folder(recipe, data, into))
    if is_finished:
        return folder
    return run(recipe, data, folder, resume=True, watcher=watcher).folder


def _find_folder(recipe: Recipe, data: CaptionedImages, into: Path) -> tuple[Path, bool]:
    """The folder of exactly this run, and whether it is finished."""
    of_run = fingerprint(recipe, data)
    seed = f"-seed{recipe.seed}" if recipe.seed else ""
    folder = into / f"{recipe.name}{seed}"
    other = _other_run_in(folder, of_run)
    if other:
        elsewhere = into / f"{recipe.name}-{short_name(of_run)}{seed}"
        log.warning("%s holds %s. This one goes to %s.", folder, other, elsewhere)
        folder = elsewhere
        if _other_run_in(folder, of_run):
            raise WrongRequest(f"{folder} holds another model. Use another folder (--into).")
    return folder, (folder / CONFIG).is_file() and not (folder / STATE).is_file()


def _other_run_in(folder: Path, of_run: Fingerprint) -> str:
    """Another run that occupies the folder, in words; empty where it is free or this run's."""
    if not (folder / CONFIG).is_file():
        return ""
    before = read_config(folder)[1].get("fingerprint")
    if before is None:
        return "a model of an older vsepp, which did not record its training data"
    differ = differences(before, of_run)
    if not differ:
        return ""
    rest = len(differ) - MAX_DIFFERENCES
    more = f" and {rest} more" if rest > 0 else ""
    return f"a model that was trained otherwise: {', '.join(differ[:MAX_DIFFERENCES])}{more}"
