"""`start_from`: the snapshot that a run begins with, which brings its architecture along."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from vsepp.encoders.architecture import CONFIG, FEATURES, IN_THE_BOX, Design, read_config
from vsepp.errors import WrongRequest
from vsepp.experiments.recipes.keys import shipped_tables

BOX = "the box"  # start_from: the model that ships with the package


def snapshot_to_start_from(start_from: str) -> Path | None:
    """The folder that is meant; None where it names a recipe, or nothing that is here."""
    if not start_from or start_from in shipped_tables():
        return (
            None  # a row is trained as it is asked for now, whatever lies in a folder of its name
        )
    folder = IN_THE_BOX if start_from == BOX else Path(start_from).expanduser()
    return folder if (folder / CONFIG).is_file() else None


def take_architecture_of_start(
    content: dict[str, Any], model_of_recipe: Callable[[str], Design | None]
) -> None:
    """Put the snapshot's architecture into a recipe's table, which may repeat but not contradict it."""
    start, own = content.get("start_from"), content.setdefault("model", {})
    if not isinstance(start, str) or not start or not isinstance(own, dict):
        return
    design, differs = _design(start, model_of_recipe), content.get("differs_from_start", ())
    if design and not set(differs) <= set(design):
        raise WrongRequest(f"differs_from_start takes keys of model: {', '.join(design)}.")
    for key, value in design.items():
        asked = own.setdefault(key, value)
        if key in differs:
            continue
        if key == "backbone" and str(value).startswith(FEATURES):
            own[key] = value  # learned from features alone, whichever net the recipe names for them
        elif asked != value:
            raise WrongRequest(
                f"{content.get('name')} starts from {start}, whose model.{key} is {value!r}, and asks "
                f"for {asked!r}. Leave model.{key} out, or start from another model "
                "(--set start_from=FOLDER; --set start_from='' starts from scratch)."
            )


def _design(start: str, model_of_recipe: Callable[[str], Design | None]) -> dict[str, Any]:
    folder = snapshot_to_start_from(start)
    design = read_config(folder)[0] if folder else model_of_recipe(start)
    if design is None:
        return {}  # neither a snapshot nor a recipe: `run` says so
    return {field.name: getattr(design, field.name) for field in fields(Design)}
