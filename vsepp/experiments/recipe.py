"""A recipe says all that a training run needs: frozen dataclasses, read from TOML.

A key that does not exist is an error that names the keys that do.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from vsepp.data.crops import LEAST_AREA, RANDOM_CROPS, Crop, CropFrom
from vsepp.data.troubles import OnError
from vsepp.encoders.architecture import Design
from vsepp.errors import WrongRequest
from vsepp.experiments.fidelity import follow_the_text
from vsepp.experiments.keys import NoEffect, apply, read_keys
from vsepp.experiments.rules import check
from vsepp.experiments.start import RECIPES, take_architecture_of_start
from vsepp.experiments.tables import refuse_quoted_row

ROW = re.compile(r"\d+\.\d+")
Words = Literal["unicode", "nltk-3.2", "nltk-3.10"]  # of any language; by the rules of CUTTERS
OF_ONE_RECIPE = ("start_from=", "model_of=")  # changes that are not for the recipes it starts from


@dataclass(frozen=True)
class DataKeys:
    collection: NoEffect[str] = ""  # what the numbers were measured on: coco or f30k
    train: tuple[str, ...] = ("train",)  # splits to learn from
    validate: str = "val"  # the split that picks the snapshot
    # differs from the paper: 1,000 of COCO's 5,000 in its rows, as in the release
    validate_images: int = 0  # only so many of them; 0: all
    # differs from the release: all captions, but in the paper's rows, where it is 5
    captions: int = 0  # of each picture, the first so many; 0: all
    captions_per_epoch: int = 0  # of each picture, so many at random; 0: all
    crop: Crop = "random_resized"  # of training pictures
    crop_size: int = 0  # of random ones; 0: model.size, as in use
    crop_area: float = LEAST_AREA  # the share of a picture that random_resized shows at least
    crop_squeezed: bool = True  # random ones are cut from squeezed pictures, where model.square
    crop_from: CropFrom = "resized"  # random_resized ones; original: from all its pixels
    wrong_captions: float = 0.0  # share of the training captions dealt to other pictures, as a test
    words: Words = "unicode"  # how captions are cut into words; nltk-3.2: as the release did
    min_count: int = 4  # words that are rarer are unknown
    on_error: NoEffect[OnError] = "stop"  # or leave out what cannot be used, and count it


@dataclass(frozen=True)
class ModelKeys(Design):
    weights: str = "none"  # none, timm (downloads) or a file
    finetune: bool = False  # train the backbone, too
    finetune_from: str = ""  # only this module of it and what follows, such as stages.3
    fixed_statistics: bool = False  # of its batch norms, and no dropout in it, while it is trained
    word_vectors: str = (
        ""  # GloVe's or fastText's file, for words to begin with; not for start_from's
    )
    word_dropout: float = 0.0  # the chance of a training word to be taken for an unknown one


@dataclass(frozen=True)
class LossKeys:
    margin: float = 0.2
    reduction: Literal["sum", "mean"] = "sum"
    mask_same_image: bool = False
    k: int = 3  # of k_hardest_hinges
    temperature: float = 0.05  # of soft_max_of_hinges
    inner_radius: float = 0.5  # of pairwise_hinge
    outer_radius: float = 1.0
    nested: tuple[int, ...] = ()  # the vectors' first so many numbers have the loss, too


@dataclass(frozen=True)
class PhaseKeys:
    epochs: int
    learning_rate: float
    loss: str = "max_of_hinges"
    schedule: Literal["constant", "cosine"] = "constant"  # of the learning rate in the phase
    warm_up: float = 0.0  # share of the phase in which the rate rises from nothing


@dataclass(frozen=True)
class ExpectedRecall:
    r1: float
    r5: float
    r10: float
    median_rank: float


@dataclass(frozen=True)
class Expectation:
    """The row as printed."""

    captions: ExpectedRecall
    images: ExpectedRecall


@dataclass(frozen=True)
class Recipe:
    """One training run, and, for a row of the paper, what it is measured against."""

    phases: tuple[PhaseKeys, ...] = ()
    name: NoEffect[str] = ""
    title: NoEffect[str] = ""  # model and training set, as the paper calls them
    start_from: str = ""  # a snapshot, row or recipe whose model is trained further, or "the box"
    differs_from_start: tuple[str, ...] = ()  # keys of model that need not be as they are there
    model_of: NoEffect[str] = ""  # the row whose model is only measured again
    data: DataKeys = field(default_factory=DataKeys)
    model: ModelKeys = field(default_factory=ModelKeys)
    loss: LossKeys = field(default_factory=LossKeys)
    method: Literal["gradient", "correlation"] = "gradient"  # or Sec. 2.1's closed form
    ridge: float = 0.01  # of correlation
    batch_size: int = 128
    chunk_size: int = 0  # pairs embedded at once, for batches larger than memory; 0: all
    # differs from the release: bf16, there float32
    # Of a GPU's products while learning; float64, for all numbers on any device, compares runs.
    precision: Literal["float64", "float32", "tf32", "bf16"] = "bf16"
    compiled: bool = False  # on a GPU the net; pays where it is trained for minutes
    # differs from the paper: no word of clipping there
    gradient_clip: float = 2.0  # 0: none
    net_share: float = 1.0  # a fine-tuned net learns at this share of the learning rate
    averaging: float = 0.0  # decay of a running average of the weights, such as 0.999; 0: none
    max_epochs: NoEffect[int] = 0  # of each phase, for a quick look; 0: as many as it says
    seed: int = 0
    seeds: NoEffect[int] = 1  # so many runs, from `seed` on
    protocol: NoEffect[str] = "full"  # of the test
    save_every: NoEffect[float] = 20.0  # seconds that a killed run may lose, beside its epoch
    graphs: NoEffect[bool] = True  # ONNX graphs beside the weights, for use without torch
    half: bool = False  # store the weights that are kept in half precision
    health: NoEffect[Literal["stop", "warn"]] = "stop"  # where the model has collapsed
    # To the code that was run, or to the text: the other keys are changed when it is read.
    fidelity: NoEffect[Literal["release", "paper"]] = "release"
    expect: NoEffect[Expectation | None] = None

    @classmethod
    def load(cls, name: str, changes: Iterable[str] = ()) -> "Recipe":
        """A recipe of ours by name or any TOML file, with changes such as `loss.margin=0.1`."""
        changes = list(changes)
        content = _content(name)
        for change in changes:
            if change.startswith("fidelity="):
                apply(content, change)
        if content.get("fidelity") == "paper":
            follow_the_text(content)  # first, so that the user's other changes have the last word
        for change in changes:
            apply(content, change)
        others = [change for change in changes if not change.startswith(OF_ONE_RECIPE)]
        take_architecture_of_start(
            content, lambda base: cls.load(base, others).model if _file(base) else None
        )
        recipe = read_keys(cls, (), content)
        if recipe.max_epochs:
            recipe = replace(recipe, phases=tuple(_shortened(recipe)))
        check(recipe)
        return recipe

    @classmethod
    def of_row(cls, row: str, changes: Iterable[str] = ()) -> "Recipe":
        """The recipe of a row of the paper's tables, such as 1.11."""
        if not ROW.fullmatch(row):
            raise WrongRequest(f"A row is called by table and number, such as 1.11, not {row!r}.")
        return cls.load(row, changes)

    @property
    def row(self) -> str:
        """Its number in the paper; empty for recipes of our own."""
        return self.name if ROW.fullmatch(self.name) else ""

    @property
    def trains_nothing(self) -> bool:
        """Another row's model is measured again, or the model is solved for."""
        return bool(self.model_of) or self.method == "correlation"

    @property
    def crops_at_random(self) -> bool:
        return self.data.crop in RANDOM_CROPS

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def all_recipes() -> list[Recipe]:
    """Ours first, then the paper's in the order of its tables."""
    names = [file.stem for file in RECIPES.glob("*.toml")]
    rows = [name for name in names if ROW.fullmatch(name)]
    ours = sorted(set(names) - set(rows))
    numbered = sorted(rows, key=lambda row: tuple(map(int, row.split("."))))
    return [Recipe.load(name) for name in (*ours, *numbered)]


def _file(name: str) -> Path | None:
    places = RECIPES / f"{name}.toml", Path(name).expanduser()
    return next((place for place in places if place.is_file()), None)


def _content(name: str) -> dict[str, Any]:
    file = _file(name)
    if file is None:
        refuse_quoted_row(name)
        known = ", ".join(sorted(p.stem for p in RECIPES.glob("*.toml") if not ROW.match(p.stem)))
        raise WrongRequest(
            f"There is no recipe {name!r}. Name a TOML file, a row of the paper such as 1.11 "
            f"(vsepp recipes lists them), or one of: {known}."
        )
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise WrongRequest(f"{file} is not TOML: {error}.") from error
    content.setdefault("name", file.stem)
    return content


def _shortened(recipe: Recipe) -> list[PhaseKeys]:
    limit = recipe.max_epochs
    return [replace(phase, epochs=min(phase.epochs, limit)) for phase in recipe.phases]
