"""What a reader must know before a result is compared with the paper's: other data, another net, other keys."""

from collections.abc import Sequence
from typing import Any

from vsepp.data.captioned import CaptionedImages
from vsepp.encoders.architecture import FEATURES, Architecture
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.tables import COLLECTIONS

NUM_FEATURES = {"vgg19.tv_in1k": 4096, "resnet152.tv_in1k": 2048}  # of the paper's nets


def remarks(
    recipe: Recipe, source: str, changes: Sequence[str], data: CaptionedImages, plan: Architecture
) -> list[str]:
    """`source` names the recipe as it was found; `plan` is that of the model that was measured."""
    found = [*_changed(recipe, source, changes)]
    if recipe.row:
        found += [*_other_collection(recipe, data), *_other_net(recipe, plan)]
    if data.left_out:
        found.append(f"Left out of the data: {len(data.left_out):,}, such as {data.left_out[0]}")
    return found


def changed_keys(recipe: Recipe, source: str, changes: Sequence[str]) -> list[str]:
    """The changes that make the recipe another one than it is by itself."""
    now, before = recipe.as_dict(), Recipe.load(source).as_dict()
    paths = [change.partition("=")[0].strip() for change in changes]
    return [
        change
        for change, path in zip(changes, paths, strict=True)
        if _value(now, path) != _value(before, path)
    ]


def _changed(recipe: Recipe, source: str, changes: Sequence[str]) -> list[str]:
    found = changed_keys(recipe, source, changes)
    return [f"Changed from {recipe.name}: {', '.join(found)}."] if found else []


def _value(keys: Any, path: str) -> Any:
    """At a dotted path; None where it leads nowhere."""
    for step in path.split("."):
        if isinstance(keys, (list, tuple)):
            keys = keys[int(step)] if step.isdecimal() and int(step) < len(keys) else None
        else:
            keys = keys.get(step) if isinstance(keys, dict) else None
    return keys


def _other_collection(recipe: Recipe, data: CaptionedImages) -> list[str]:
    wanted = recipe.data.collection
    if data.collection == wanted:
        return []
    paper = COLLECTIONS[wanted]
    if not data.collection:
        return [f"The paper's row is on {paper}; {data.name} does not say that it is."]
    return [f"The paper's row is on {paper}; this one on {COLLECTIONS[data.collection]}."]


def _other_net(recipe: Recipe, plan: Architecture) -> list[str]:
    """The row's own net is named by the recipe of the row, whatever was changed since."""
    row = Recipe.of_row(recipe.row)
    net = (Recipe.of_row(row.model_of) if row.model_of else row).model.backbone
    if plan.backbone == net:
        return []
    if not plan.backbone.startswith(FEATURES):
        return [f"The paper's row looks through {net}; this one through {plan.backbone}."]
    length = int(plan.backbone.removeprefix(FEATURES))
    if length == NUM_FEATURES[net]:
        return [f"Learned from features of unknown origin, as many as {net} makes ({length:,})."]
    return [
        f"Learned from features of {length:,} numbers; the paper's {net} makes {NUM_FEATURES[net]:,}."
    ]
