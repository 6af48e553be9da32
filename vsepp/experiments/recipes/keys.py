"""Reads recipes: TOML tables -> frozen dataclasses, with `key.path=value` changes and rules between keys.

An unknown key is answered with the known ones. This is not pydantic or msgspec because the machine that
trains has neither.
"""

import tomllib
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

from vsepp.data.collections import DataOptions
from vsepp.errors import WrongRequest
from vsepp.plugins import loaded, offered

if TYPE_CHECKING:
    from vsepp.equations.losses import Loss
    from vsepp.experiments.recipe import Recipe

T = TypeVar("T")
Table = dict[str, Any]
TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
NO_EFFECT = "no effect"
# A key that cannot change the trained model, or only through files that are compared by content.
NoEffect = Annotated[T, NO_EFFECT]

RECIPES = Path(__file__).parent
GRID = "f8k-grid"
EXTENDS = "extends"  # a shipped recipe whose keys this one changes
LOSS_PLUGINS = "vsepp.losses"  # functions (scores, margin=..., negatives=...) -> one loss per pair


@dataclass(frozen=True)
class UseKeys:
    """Keys of commands that only read data."""

    data: DataOptions = field(default_factory=DataOptions)


# ---- tables ---------------------------------------------------------------------------------


@cache
def shipped_tables() -> dict[str, Table]:
    """The tables of all shipped recipes by name; those of the Flickr8k grid are generated."""
    tables = {file.stem: read_toml(file) for file in RECIPES.glob("*.toml")}
    grid = _grid(tables.pop(GRID))
    return tables | grid


def read_toml(file: Path) -> Table:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise WrongRequest(f"{file} is not TOML: {error}.") from error


def merge(base: Table, change: Table) -> Table:
    """`base` with the keys of `change`; tables inside are merged key by key."""
    both = {
        key: merge(base[key], value)
        for key, value in change.items()
        if isinstance(value, dict) and isinstance(base.get(key), dict)
    }
    return base | change | both


def _grid(content: Table) -> dict[str, Table]:
    """f8k-MODEL-CROP for every model and every crop."""
    found = {}
    for (model, of_model), (crop, of_crop) in product(
        content["models"].items(), content["crops"].items()
    ):
        table = merge(merge(content["all"], of_model), of_crop)
        table["title"] = f"{of_model['title']}, {of_crop['title']}"
        table["phases"] = of_model["phases"][of_crop["phases"]]
        if "start_from" in of_crop:
            table["start_from"] = f"f8k-{model}-{of_crop['start_from']}"
        found[f"f8k-{model}-{crop}"] = table
    return found


def apply(content: Table, change: str) -> None:
    """Put one `key.path=value` into a table."""
    path, equals, text = change.partition("=")
    if not equals:
        raise WrongRequest(f"{change}: write it as KEY=VALUE, such as loss.margin=0.1.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *above, last = path.strip().split(".")
    place: Any = content
    for step in above:
        if isinstance(place, list):
            place = place[_position(place, step, change)]
        elif isinstance(place, dict):
            place = place.setdefault(step, {})
    if isinstance(place, list):
        place[_position(place, last, change)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise WrongRequest(f"{change}: {'.'.join(above)} is a value and has no keys.")


def _position(items: list[Any], step: str, change: str) -> int:
    if not step.isdecimal() or int(step) >= len(items):
        raise WrongRequest(f"{change}: {step} is not an item; there are 0 to {len(items) - 1}.")
    return int(step)


# ---- typed reading --------------------------------------------------------------------------


def read_keys(kind: type[T], changes: Iterable[str], content: Table | None = None) -> T:
    """A dataclass of keys from a table and `key.path=value` changes to it."""
    content = {} if content is None else content
    for change in changes:
        apply(content, change)
    return _read(kind, content, "")


def decisive_keys(keys: Any, path: str = "") -> Table:
    """All keys of a dataclass that decide which model is trained, by their dotted names."""
    found: Table = {}
    for key, kind in typing.get_type_hints(type(keys), include_extras=True).items():
        value, name = getattr(keys, key), f"{path}{key}"
        if NO_EFFECT not in getattr(kind, "__metadata__", ()):
            found |= decisive_keys(value, f"{name}.") if is_dataclass(value) else {name: value}
    return found


def _read(kind: type[T], content: Any, path: str) -> T:
    if not isinstance(content, dict):
        raise WrongRequest(f"{path or 'A recipe'} takes keys, not {content!r}.")
    types_of = typing.get_type_hints(kind)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key in content:
        if key not in known:
            where = f"{path}.{key}" if path else key
            raise WrongRequest(f"Unknown key {where}. Known: {', '.join(known)}.")
    values = {
        key: _value(types_of[key], value, f"{path}.{key}" if path else key)
        for key, value in content.items()
    }
    try:
        return kind(**values)
    except TypeError as error:  # a key without default is missing
        raise WrongRequest(
            f"{path or 'The recipe'}: {str(error).partition(')')[2].strip()}."
        ) from error


def _value(wanted: Any, value: Any, path: str) -> Any:
    if get_origin(wanted) is UnionType:  # a table that may be absent
        wanted = next(kind for kind in get_args(wanted) if kind is not NoneType)
    if is_dataclass(wanted):
        return _read(wanted, value, path)  # type: ignore[arg-type]
    if get_origin(wanted) is tuple:
        if not isinstance(value, list):
            raise WrongRequest(f"{path} takes a list, not {value!r}.")
        inner = get_args(wanted)[0]
        return tuple(_value(inner, item, f"{path}.{n}") for n, item in enumerate(value))
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise WrongRequest(f"{path} takes {' or '.join(get_args(wanted))}, not {value!r}.")
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        raise WrongRequest(f"{path} takes {TYPE_NAMES[wanted]}, not {value!r}.")
    return value


# ---- rules between keys ---------------------------------------------------------------------


def check(recipe: "Recipe") -> None:
    """Raise for the first broken rule."""
    for is_kept, complaint in (*_training(recipe), *_data(recipe), *_model(recipe)):
        if not is_kept:
            raise WrongRequest(complaint)


def _training(recipe: "Recipe") -> tuple[tuple[bool, str], ...]:
    return (
        (recipe.batch_size >= 2, "batch_size must be at least 2: a single pair has no negatives."),
        (recipe.chunk_size >= 0, "chunk_size takes 0 or more."),
        (
            not (recipe.chunk_size and recipe.model.finetune) or recipe.model.fixed_statistics,
            "With chunk_size, batch norm would see parts of a batch: set model.fixed_statistics=true.",
        ),
        (
            all(0 < width < recipe.model.dim for width in recipe.loss.nested),
            "loss.nested takes widths below model.dim.",
        ),
        (0 <= recipe.averaging < 1, "averaging takes 0 to just below 1."),
        (
            not (recipe.teachers and recipe.trains_nothing),
            "teachers are imitated by gradient steps, and this recipe takes none: set teachers=[].",
        ),
        (recipe.loss.teacher_weight >= 0, "loss.teacher_weight takes 0 or more."),
        (recipe.loss.teacher_temperature > 0, "loss.teacher_temperature takes more than 0."),
        (recipe.net_share >= 0, "net_share takes 0 or more."),
        (
            all(0 <= phase.warm_up <= 1 for phase in recipe.phases),
            "phases: warm_up takes a share of the phase, 0 to 1.",
        ),
        (recipe.seed >= 0, "seed takes 0 or more."),
        (recipe.seeds >= 1, "seeds takes 1 or more."),
        (all(phase.epochs >= 0 for phase in recipe.phases), "phases: epochs takes 0 or more."),
        (
            recipe.trains_nothing or any(phase.epochs for phase in recipe.phases),
            "The recipe has no epochs: add a phase with epochs.",
        ),
    )


def _data(recipe: "Recipe") -> tuple[tuple[bool, str], ...]:
    return (
        (recipe.data.crop_size >= 0, "data.crop_size takes 0 or more."),
        (
            not recipe.data.crop_size or recipe.crops_at_random,
            "data.crop_size applies to random crops: set data.crop=random_resized.",
        ),
        (
            recipe.data.crop != "random" or recipe.data.crop_size <= recipe.model.resize,
            "data.crop_size is larger than model.resize, the image that it is cut from.",
        ),
        (
            recipe.data.crop_from == "resized" or recipe.data.crop == "random_resized",
            "data.crop_from applies to random_resized crops: set data.crop_from=resized.",
        ),
        (
            recipe.data.crop_from == "resized"
            or not (recipe.model.square and recipe.data.crop_squeezed),
            "Original images are not squeezed: set data.crop_from=resized or data.crop_squeezed=false.",
        ),
        (recipe.data.captions_per_epoch >= 0, "data.captions_per_epoch takes 0 or more."),
        (0 < recipe.data.crop_area <= 1, "data.crop_area takes more than 0, up to 1."),
        (0 <= recipe.data.wrong_captions <= 1, "data.wrong_captions takes 0 to 1."),
        (0 <= recipe.data.short_captions <= 1, "data.short_captions takes 0 to 1."),
        (
            recipe.data.crop != "ten" or not recipe.model.finetune,
            "Ten crops need a frozen backbone: set model.finetune=false.",
        ),
    )


def _model(recipe: "Recipe") -> tuple[tuple[bool, str], ...]:
    return (
        (
            recipe.model.size <= recipe.model.resize,
            "model.size is larger than model.resize, the image that it is cut from.",
        ),
        (
            not recipe.model.backbone.startswith("features") or not recipe.model.finetune,
            "Features have no backbone to fine-tune: set model.finetune=false.",
        ),
        (
            recipe.model.finetune or not recipe.model.finetune_from,
            "model.finetune_from says where fine-tuning begins: set model.finetune=true.",
        ),
        (
            recipe.trains_nothing
            or recipe.model.backbone != "small"
            or recipe.model.finetune
            or (bool(recipe.start_from) and "backbone" not in recipe.differs_from_start),
            "The backbone small has no pretrained weights: set model.finetune=true.",
        ),
        (0 <= recipe.model.word_dropout < 1, "model.word_dropout takes 0 to less than 1."),
        (
            recipe.model.caption_encoder == "gru"
            or (not recipe.model.bidirectional and recipe.model.pooling == "last"),
            "model.bidirectional and model.pooling need a GRU: set model.caption_encoder=gru.",
        ),
    )


def loss_named(name: str) -> "Loss":
    """Ours, or one that another package offers: docs/extend.md."""
    from vsepp.equations.losses import LOSSES  # brings torch

    if name in LOSSES:
        return LOSSES[name]
    others = offered(LOSS_PLUGINS)
    if name not in others:
        known = ", ".join([*LOSSES, *others])
        raise WrongRequest(f"Unknown loss {name!r}. Known: {known}.")
    loss: Loss = loaded(LOSS_PLUGINS, name)
    return loss
