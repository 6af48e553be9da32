"""A recipe says all that a training run needs: frozen dataclasses, read from TOML.

A key that does not exist is an error that names the keys that do.
"""

import tomllib
import typing
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from vsepp.data.pictures import RANDOM_CROPS, Crop
from vsepp.data.troubles import OnError
from vsepp.encoders.architecture import Design
from vsepp.errors import WrongRequest

RECIPES = Path(__file__).parent / "recipes"
T = TypeVar("T")


@dataclass(frozen=True)
class DataKeys:
    train: tuple[str, ...] = ("train",)  # splits to learn from
    validate: str = "val"  # the split that picks the snapshot
    crop: Crop = "random_resized"  # of training pictures
    min_count: int = 4  # words that are rarer are unknown
    on_error: OnError = "stop"  # or leave out what cannot be used, and count it


@dataclass(frozen=True)
class ModelKeys(Design):
    weights: str = "none"  # none, timm (downloads) or a file
    finetune: bool = False  # train the backbone, too


@dataclass(frozen=True)
class LossKeys:
    margin: float = 0.2
    reduction: Literal["sum", "mean"] = "sum"
    mask_same_image: bool = False
    k: int = 3  # of k_hardest_hinges
    temperature: float = 0.05  # of soft_max_of_hinges
    inner_radius: float = 0.5  # of pairwise_hinge
    outer_radius: float = 1.0


@dataclass(frozen=True)
class PhaseKeys:
    epochs: int
    learning_rate: float
    loss: str = "max_of_hinges"


@dataclass(frozen=True)
class Recipe:
    """One training run."""

    phases: tuple[PhaseKeys, ...]
    name: str = ""
    data: DataKeys = field(default_factory=DataKeys)
    model: ModelKeys = field(default_factory=ModelKeys)
    loss: LossKeys = field(default_factory=LossKeys)
    batch_size: int = 128
    gradient_clip: float = 2.0  # 0: none
    seed: int = 0

    @classmethod
    def load(cls, name: str, changes: Iterable[str] = ()) -> "Recipe":
        """A recipe of ours by name or any TOML file, with changes such as `loss.margin=0.1`."""
        file = RECIPES / f"{name}.toml"
        if not file.is_file():
            file = Path(name).expanduser()
        if not file.is_file():
            known = ", ".join(sorted(path.stem for path in RECIPES.glob("*.toml")))
            raise WrongRequest(
                f"There is no recipe {name!r}. Name a TOML file, or one of: {known}."
            )
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise WrongRequest(f"{file} is not TOML: {error}.") from error
        content.setdefault("name", file.stem)
        recipe = read_keys(cls, changes, content)
        _check(recipe)
        return recipe

    @property
    def crops_at_random(self) -> bool:
        return self.data.crop in RANDOM_CROPS

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_keys(kind: type[T], changes: Iterable[str], content: dict[str, Any] | None = None) -> T:
    """A dataclass of keys from a table and `--set` changes to it."""
    content = {} if content is None else content
    for change in changes:
        _apply(content, change)
    return _read(kind, content, "")


def _check(recipe: Recipe) -> None:
    """What types cannot say."""
    for is_right, complaint in (
        (recipe.batch_size >= 2, "batch_size takes at least 2: a pair alone has no negatives."),
        (recipe.seed >= 0, "seed takes 0 or more."),
        (all(phase.epochs >= 0 for phase in recipe.phases), "phases: epochs takes 0 or more."),
        (
            any(phase.epochs for phase in recipe.phases),
            "The recipe has no epochs: give a phase one.",
        ),
        (
            recipe.model.size <= recipe.model.resize,
            "model.size is larger than model.resize, the picture that the crop is cut from.",
        ),
        (
            recipe.data.crop != "ten" or not recipe.model.finetune,
            "Ten crops are for a net that is not trained: set model.finetune=false.",
        ),
        (
            recipe.model.backbone != "features" or not recipe.model.finetune,
            "The net behind features cannot be trained: set model.finetune=false.",
        ),
        (
            recipe.model.backbone != "small" or recipe.model.finetune,
            "The backbone small starts from scratch and must learn: set model.finetune=true.",
        ),
    ):
        if not is_right:
            raise WrongRequest(complaint)


def _apply(content: dict[str, Any], change: str) -> None:
    """Put one `--set key.path=value` into the recipe's content."""
    path, equals, text = change.partition("=")
    if not equals:
        raise WrongRequest(f"--set {change}: write it as key=value, such as loss.margin=0.1.")
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
        raise WrongRequest(f"--set {change}: {'.'.join(above)} holds a value, not keys.")


def _position(items: list[Any], step: str, change: str) -> int:
    if not step.isdecimal() or int(step) >= len(items):
        raise WrongRequest(
            f"--set {change}: {step} is not an item; there are 0 to {len(items) - 1}."
        )
    return int(step)


def _read(kind: type[T], content: Any, path: str) -> T:
    """A dataclass from a TOML table: keys known, types right."""
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
        raise WrongRequest(f"{path} takes {WORDS[wanted]}, not {value!r}.")
    return value


WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
