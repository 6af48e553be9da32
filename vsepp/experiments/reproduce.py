"""A row or a table of the paper, or a recipe of ours: trained, measured, set beside what was printed."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from vsepp.data.captioned import CaptionedImages, is_plain_name
from vsepp.devices import FirstStopped, join
from vsepp.encoders.architecture import CONFIG, Architecture, read_config
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.evaluation.retrieval import folds
from vsepp.experiments.comparison import Report, Reproduced
from vsepp.experiments.fingerprint import (
    Fingerprint,
    differences,
    fingerprint,
    short_name,
    weights_of,
)
from vsepp.experiments.health import Stopped
from vsepp.experiments.keeper import STATE
from vsepp.experiments.measure import measure_on
from vsepp.experiments.opening import UseOfData, open_checked
from vsepp.experiments.provenance import circumstances
from vsepp.experiments.recipe import OF_ONE_RECIPE, Recipe
from vsepp.experiments.remarks import changed_keys, remarks
from vsepp.experiments.run import Watcher, run
from vsepp.experiments.start import snapshot_to_start_from
from vsepp.experiments.tables import table_of
from vsepp.snapshots.snapshot import Snapshot

NAMED = 3  # of the differences between two runs
OF_ITS_OWN = re.compile(r"-[0-9a-f]{8}(?=$|-seed\d+$)")  # how such a folder's name ends


def reproduce(
    what: str,
    data: str | CaptionedImages,
    into: Path | str,
    changes: Iterable[str] = (),
    *,
    watcher: Watcher | None = None,
) -> Report:
    """Train what a row or recipe needs, or every row of `table:2`, measure it, and compare.

    Finished runs below `into` are taken if they are the same as those that are asked for, by the
    recipe and by all that it leads to; interrupted ones go on. Others get folders of their own. A
    result file is written beside each run.
    """
    changes, into = list(changes), Path(into)
    is_table = what.startswith("table:")
    table = _table_number(what) if is_table else None
    rows = [e for e in table_of(table) if isinstance(e, str)] if table else [what]
    own = [row for row in rows if not table or row.startswith(f"{table}.")]
    recipes = {row: Recipe.load(row, changes) for row in own}
    if isinstance(data, str):
        data = open_checked(data, UseOfData(recipes[own[0]].data.on_error))
    for recipe in recipes.values():  # complain before hours of work, not after them
        if not is_plain_name(recipe.name):
            raise WrongRequest(
                f"A recipe's name is that of its folder, and {recipe.name!r} cannot be."
            )
        folds(recipe.protocol, len(data.split("test")))
    done = {
        recipe.name: _reproduced(recipe, row, data, into, changes, watcher)
        for row, recipe in recipes.items()
    }
    return Report(done, table)


def _table_number(what: str) -> int:
    number = what.removeprefix("table:")
    if number not in ("1", "2", "3", "4"):
        raise WrongRequest(f"The paper has table:1 to table:4, not {what!r}.")
    return int(number)


def _reproduced(
    recipe: Recipe, source: str, data: CaptionedImages, into: Path, changes: list[str], watcher: Watcher | None
) -> Reproduced:  # fmt: skip
    """All seeds of a recipe; one that is stopped does not take the others with it."""
    results, stopped, folders = [], [], []
    places: list[Path] = []  # of all seeds, also of those that were stopped
    test = data.with_captions(recipe.data.captions)
    for seed in range(recipe.seed, recipe.seed + recipe.seeds):
        try:
            folder = _trained(recipe, data, into, changes, seed, watcher)
        except (Stopped, FirstStopped) as error:
            reason, place = _told_to_all(error)
            stopped.append(reason)
            places.append(place)
            continue
        results.append(measure_on(Snapshot.load(folder), test, "test", recipe.protocol))
        folders.append(folder)
        places.append(folder)
    made = join().as_first(lambda: [_made(folder) for folder in folders])
    said = remarks(recipe, source, changes, data, _plan(folders[0])) if folders else []
    record = {
        "data": data.name,
        "left_out": list(data.left_out),
        "changes": changed_keys(recipe, source, changes),
        "models": made,
        "measured_by": circumstances(),
    }
    row = Reproduced(recipe, results, stopped, said, record)
    own = OF_ITS_OWN.search(places[0].name)
    file = into / f"{recipe.name}{own[0] if own else ''}.json"
    join().as_first(lambda: _write(row, file))
    return row


def _told_to_all(error: WorkFailed) -> tuple[str, Path]:
    """Why the first process has stopped a run, and where the run is: all go on with the next seed."""

    def tell() -> tuple[str, Path]:
        assert isinstance(error, Stopped)  # in the first process
        _say(str(error))
        return error.reason, error.folder

    return join().as_first(tell)


def _say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)


def _write(row: Reproduced, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(row.as_dict(), indent=2, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")


def _plan(folder: Path) -> Architecture:
    return read_config(folder)[0]


def _made(folder: Path) -> dict[str, Any]:
    """Where a model is, which weights it has, and how it came to be."""
    _, notes = read_config(folder)
    told = {key: notes.get(key) for key in ("epoch", "validation_rsum", "made_by", "fingerprint")}
    return {"folder": str(folder), "weights": weights_of(folder), **told}


def _trained(
    recipe: Recipe, data: CaptionedImages, into: Path, changes: list[str], seed: int, watcher: Watcher | None
) -> Path:  # fmt: skip
    """The folder of a row's finished model; trained here, with all that it starts from, if need be."""
    others = [change for change in changes if not change.startswith(OF_ONE_RECIPE)]
    if recipe.model_of:
        return _trained(Recipe.load(recipe.model_of, others), data, into, others, seed, watcher)
    recipe = replace(recipe, seed=seed, seeds=1)
    # differs from the paper: its fine-tuning starts from a model of 30 epochs, here from the best of them
    if recipe.start_from and snapshot_to_start_from(recipe.start_from) is None:
        base = _trained(Recipe.load(recipe.start_from, others), data, into, others, seed, watcher)
        recipe = replace(recipe, start_from=str(base))
    folder, is_finished = join().as_first(lambda: _place(recipe, data, into))
    if is_finished:
        return folder
    return run(recipe, data, folder, resume=True, watcher=watcher).folder


def _place(recipe: Recipe, data: CaptionedImages, into: Path) -> tuple[Path, bool]:
    """The folder of this very run, and whether it is finished; one of its own where another has the name."""
    of_run = fingerprint(recipe, data)
    seed = f"-seed{recipe.seed}" if recipe.seed else ""
    folder = into / f"{recipe.name}{seed}"
    other = _who_is_in(folder, of_run)
    if other:
        elsewhere = into / f"{recipe.name}-{short_name(of_run)}{seed}"
        _say(f"{folder} holds {other}. This one goes to {elsewhere}.")
        folder = elsewhere
        if _who_is_in(folder, of_run):
            raise WrongRequest(f"{folder} holds another model. Use another folder (--into).")
    return folder, (folder / CONFIG).is_file() and not (folder / STATE).is_file()


def _who_is_in(folder: Path, of_run: Fingerprint) -> str:
    """Another run than this one, in words; nothing where the folder is free or this one's."""
    if not (folder / CONFIG).is_file():
        return ""
    before = read_config(folder)[1].get("fingerprint")
    if before is None:
        return "a model of an older vsepp, which did not write down on which data it was trained"
    differ = differences(before, of_run)
    more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
    return (
        f"a model that was trained otherwise: {', '.join(differ[:NAMED])}{more}" if differ else ""
    )
