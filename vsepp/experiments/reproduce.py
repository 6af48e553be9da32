"""A row or a table of the paper, or a recipe of ours: trained, measured, set beside what was printed."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import join
from vsepp.encoders.architecture import CONFIG, read_config
from vsepp.encoders.snapshot import Snapshot
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import folds
from vsepp.experiments.comparison import Report, Reproduced
from vsepp.experiments.keeper import STATE
from vsepp.experiments.measure import measure_on
from vsepp.experiments.opening import open_checked
from vsepp.experiments.recipe import BOX, Recipe
from vsepp.experiments.run import run
from vsepp.experiments.tables import table_of

WHAT_IS_TRAINED = ("phases", "data", "model", "loss", "batch_size", "gradient_clip", "seed")


def reproduce(
    what: str, data: str | CaptionedImages, into: Path | str, changes: Iterable[str] = ()
) -> Report:
    """Train what a row or recipe needs, or every row of `table:2`, measure it, and compare.

    Finished runs below `into` are taken, interrupted ones go on. A result file is written beside
    each run.
    """
    changes, into = list(changes), Path(into)
    is_table = what.startswith("table:")
    table = _table_number(what) if is_table else None
    rows = [e for e in table_of(table) if isinstance(e, str)] if table else [what]
    own = [row for row in rows if not table or row.startswith(f"{table}.")]
    recipes = [Recipe.load(row, changes) for row in own]
    if isinstance(data, str):
        data = open_checked(data, recipes[0].data.on_error)
    for recipe in recipes:  # complain before hours of work, not after them
        folds(recipe.protocol, len(data.split("test")))
    done = {recipe.name: _reproduced(recipe, data, into, changes) for recipe in recipes}
    return Report(done, table)


def _table_number(what: str) -> int:
    number = what.removeprefix("table:")
    if number not in ("1", "2", "3", "4"):
        raise WrongRequest(f"The paper has table:1 to table:4, not {what!r}.")
    return int(number)


def _reproduced(
    recipe: Recipe, data: CaptionedImages, into: Path, changes: list[str]
) -> Reproduced:
    results = []
    test = data.with_captions(recipe.data.captions)
    for seed in range(recipe.seed, recipe.seed + recipe.seeds):
        folder = _trained(recipe, data, into, changes, seed)
        results.append(measure_on(Snapshot.load(folder), test, "test", recipe.protocol))
    row = Reproduced(recipe, results)
    content = {**row.as_dict(), "data": data.name, "changes": changes}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    join().as_first(lambda: (into / f"{recipe.name}.json").write_text(text, encoding="utf-8"))
    return row


def _trained(
    recipe: Recipe, data: CaptionedImages, into: Path, changes: list[str], seed: int
) -> Path:
    """The folder of a row's finished model; trained here, with all that it starts from, if need be."""
    others = [change for change in changes if not change.startswith(("start_from=", "model_of="))]
    if recipe.model_of:
        return _trained(Recipe.load(recipe.model_of, others), data, into, others, seed)
    recipe = replace(recipe, seed=seed, seeds=1)
    folder = into / (recipe.name if seed == 0 else f"{recipe.name}-seed{seed}")
    if join().as_first(lambda: (folder / CONFIG).is_file() and not (folder / STATE).is_file()):
        _check_that_it_is_the_same(folder, recipe)
        return folder
    # differs from the paper: its fine-tuning starts from a model of 30 epochs, here from the best of them
    if recipe.start_from not in ("", BOX) and not (Path(recipe.start_from) / CONFIG).is_file():
        base = _trained(Recipe.load(recipe.start_from, others), data, into, others, seed)
        recipe = replace(recipe, start_from=str(base))
    return run(recipe, data, folder, resume=True).folder


def _check_that_it_is_the_same(folder: Path, recipe: Recipe) -> None:
    _, notes = read_config(folder)
    before, now = notes.get("recipe", {}), json.loads(json.dumps(recipe.as_dict()))
    changed = [key for key in WHAT_IS_TRAINED if before.get(key) != now[key]]
    if changed:
        raise WrongRequest(
            f"{folder} holds a model of {recipe.name} that was trained otherwise "
            f"({', '.join(changed)}). Take another folder (--into), or remove it."
        )
