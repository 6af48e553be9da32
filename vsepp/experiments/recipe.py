"""A recipe holds every setting of a training run: frozen dataclasses, read from TOML."""

import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from vsepp.data.captioned import OnError
from vsepp.data.pictures import LEAST_AREA, RANDOM_CROPS, Crop, CropFrom, View
from vsepp.encoders.architecture import Design, Int8
from vsepp.errors import WrongRequest
from vsepp.experiments.recipes.keys import (
    EXTENDS,
    NoEffect,
    Table,
    apply,
    check,
    merge,
    read_keys,
    read_toml,
    shipped_tables,
)
from vsepp.experiments.recipes.quoted import refuse_quoted_row
from vsepp.experiments.recipes.start import take_architecture_of_start

ROW = re.compile(r"\d+\.\d+")
Words = Literal["unicode", "nltk-3.2", "nltk-3.10"]  # any language, or by the rules of CUTTERS
# Changes that do not apply to the recipes it starts from.
OF_ONE_RECIPE = ("start_from=", "model_of=", "teachers=")
MEASURED_ON = {"1k": 1000, "5x1k": 5000, "5k": 5000, "full": 1000}  # images, in the paper
COLLECTIONS = {"coco": "COCO", "f30k": "Flickr30K", "f8k": "Flickr8k"}


@dataclass(frozen=True)
class DataKeys:
    collection: NoEffect[str] = ""  # what the paper's numbers were measured on: coco or f30k
    train: tuple[str, ...] = ("train",)  # splits to train on
    validate: str = "val"  # the split that picks the snapshot
    # differs from the paper: 1,000 of COCO's 5,000 in its rows, as in the release
    validate_images: int = 0  # only the first N; 0: all
    # differs from the release: all captions, but in the paper's rows, where it is 5
    captions: int = 0  # the first N of each image; 0: all
    captions_per_epoch: int = 0  # N of each image, drawn at random in every epoch; 0: all
    short_captions: float = 0.0  # share of training captions that are cut to one to three words
    crop: Crop = "random_resized"  # of training images
    crop_size: int = 0  # of random crops; 0: model.size
    crop_area: float = LEAST_AREA  # minimum share of the image that random_resized shows
    crop_squeezed: bool = True  # random crops are cut from squeezed images, where model.square
    crop_from: CropFrom = "resized"  # of random_resized; original: full resolution
    wrong_captions: float = 0.0  # label noise: share of training captions that are permuted
    words: Words = "unicode"  # tokenizer; nltk-3.2: as in the release
    min_count: int = 4  # rarer words are unknown
    on_error: NoEffect[OnError] = "stop"  # skip: leave out what cannot be used, and count it

    @property
    def cutter(self) -> str | None:
        """The rules by which a vocabulary cuts words; None: of any language."""
        return None if self.words == "unicode" else self.words


@dataclass(frozen=True)
class ModelKeys(Design):
    weights: str = "none"  # none, timm (downloads) or a file
    finetune: bool = False  # train the backbone, too
    finetune_from: str = ""  # only from this module on, such as stages.3; empty: all of it
    fixed_statistics: bool = False  # batch norm in eval mode and no dropout while fine-tuning
    word_vectors: str = ""  # GloVe or fastText file to initialise words; not with start_from
    word_dropout: float = 0.0  # probability that a training word is replaced by the unknown word


@dataclass(frozen=True)
class LossKeys:
    margin: float = 0.2
    reduction: Literal["sum", "mean"] = "sum"
    mask_same_image: bool = False
    k: int = 3  # of k_hardest_hinges
    temperature: float = 0.05  # of soft_max_of_hinges
    inner_radius: float = 0.5  # of pairwise_hinge
    outer_radius: float = 1.0
    nested: tuple[int, ...] = ()  # Matryoshka widths that are trained besides the full vector
    teacher_weight: float = 1.0  # of the distance from the teachers' scores
    teacher_temperature: float = 0.05


@dataclass(frozen=True)
class PhaseKeys:
    epochs: int
    learning_rate: float
    loss: str = "max_of_hinges"
    schedule: Literal["constant", "cosine"] = "constant"
    warm_up: float = 0.0  # share of the phase


@dataclass(frozen=True)
class ExpectedRecall:
    r1: float
    r5: float
    r10: float
    median_rank: float


@dataclass(frozen=True)
class Expectation:
    """The row as printed in the paper."""

    captions: ExpectedRecall
    images: ExpectedRecall


@dataclass(frozen=True)
class Recipe:
    """One training run and, for a row of the paper, the numbers it is compared with."""

    phases: tuple[PhaseKeys, ...] = ()
    name: NoEffect[str] = ""
    title: NoEffect[str] = ""  # model and training set, as the paper calls them
    start_from: str = ""  # a snapshot, row or recipe to train further, or "the box"
    differs_from_start: tuple[str, ...] = ()  # keys of model that may differ from it
    teachers: tuple[str, ...] = ()  # snapshots whose mean scores are imitated (distillation)
    model_of: NoEffect[str] = ""  # the row whose model is only evaluated again
    data: DataKeys = field(default_factory=DataKeys)
    model: ModelKeys = field(default_factory=ModelKeys)
    loss: LossKeys = field(default_factory=LossKeys)
    method: Literal["gradient", "correlation"] = "gradient"  # or Sec. 2.1's closed form
    ridge: float = 0.01  # of correlation
    batch_size: int = 128
    chunk_size: int = 0  # pairs embedded at once, for batches larger than memory; 0: all
    # differs from the release: bf16, there float32
    # Of matrix products on a GPU; float64, on any device, is for comparing runs.
    precision: Literal["float64", "float32", "tf32", "bf16"] = "bf16"
    compiled: bool = False  # torch.compile the backbone on a GPU; pays from minutes on
    # differs from the paper: no word of clipping there
    gradient_clip: float = 2.0  # 0: none
    net_share: float = 1.0  # learning rate of a fine-tuned backbone, as a share of the others'
    averaging: float = 0.0  # EMA decay of the weights, such as 0.999; 0: none
    max_epochs: NoEffect[int] = 0  # limit for each phase, for a quick look; 0: none
    seed: int = 0
    seeds: NoEffect[int] = 1  # number of runs, with seeds from `seed` on
    protocol: NoEffect[str] = "full"  # of the test
    save_every: NoEffect[float] = 20.0  # seconds between states to resume from
    graphs: NoEffect[bool] = True  # export ONNX graphs, for use without torch
    half: bool = False  # store weights in half precision
    int8: Int8 = "none"  # store word vectors, or all large matrices, in 8 bits
    health: NoEffect[Literal["stop", "warn"]] = "stop"  # when the model has collapsed
    # To the released code or to the paper's text, which changes other keys.
    fidelity: NoEffect[Literal["release", "paper"]] = "release"
    expect: NoEffect[Expectation | None] = None

    @classmethod
    def load(cls, name: str, changes: Iterable[str] = ()) -> "Recipe":
        """A shipped recipe by name or any TOML file, with changes such as `loss.margin=0.1`."""
        changes = list(changes)
        content = _content(name)
        for change in changes:
            if change.startswith("fidelity="):
                apply(content, change)
        if content.get("fidelity") == "paper":
            follow_the_text(content)  # first, so that the user's other changes win
        for change in changes:
            apply(content, change)
        others = [change for change in changes if not change.startswith(OF_ONE_RECIPE)]
        if content.get("start_from"):
            take_architecture_of_start(
                content, lambda base: cls.load(base, others).model if _is_recipe(base) else None
            )
        recipe = read_keys(cls, (), content)
        if limit := recipe.max_epochs:
            phases = (replace(phase, epochs=min(phase.epochs, limit)) for phase in recipe.phases)
            recipe = replace(recipe, phases=tuple(phases))
        check(recipe)
        return recipe

    @classmethod
    def of_row(cls, row: str, changes: Iterable[str] = ()) -> "Recipe":
        """The recipe of a row of the paper's tables, such as 1.11."""
        if not ROW.fullmatch(row):
            raise WrongRequest(f"Rows are named TABLE.NUMBER, such as 1.11, not {row!r}.")
        return cls.load(row, changes)

    @property
    def row(self) -> str:
        """Its number in the paper; empty for other recipes."""
        return self.name if ROW.fullmatch(self.name) else ""

    @property
    def trains_nothing(self) -> bool:
        """Evaluates another row's model, or is solved in closed form."""
        return bool(self.model_of) or self.method == "correlation"

    @property
    def crops_at_random(self) -> bool:
        return self.data.crop in RANDOM_CROPS

    def view_of_training(self, view: View) -> View:
        """What training shows of an image that a model looks at by `view`."""
        squeezed = view.square and (self.data.crop_squeezed or not self.crops_at_random)
        size, area = self.data.crop_size or view.size, self.data.crop_area
        crop_from = self.data.crop_from
        return replace(view, size=size, least_area=area, square=squeezed, crop_from=crop_from)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def all_recipes() -> list[Recipe]:
    """Ours by name, then the paper's in the order of its tables."""
    rows = [name for name in shipped_tables() if ROW.fullmatch(name)]
    ours = sorted(set(shipped_tables()) - set(rows))
    numbered = sorted(rows, key=lambda row: tuple(map(int, row.split("."))))
    return [Recipe.load(name) for name in (*ours, *numbered)]


def _is_recipe(name: str) -> bool:
    return name in shipped_tables() or Path(name).expanduser().is_file()


def _content(name: str) -> Table:
    """A copy of a recipe's table, with the keys of the recipe that it extends."""
    shipped = shipped_tables()
    if not _is_recipe(name):
        refuse_quoted_row(name)
        known = ", ".join(sorted(each for each in shipped if not ROW.match(each)))
        raise WrongRequest(
            f"There is no recipe {name!r}. Use a TOML file, a row of the paper such as 1.11 "
            f"(vsepp recipes lists them), or one of: {known}."
        )
    file = Path(name).expanduser()
    content = deepcopy(shipped[name]) if name in shipped else read_toml(file)
    content.setdefault("name", name if name in shipped else file.stem)
    base = content.pop(EXTENDS, None)
    return content if base is None else merge(_content(base), content)


# ---- the paper's text ----------------------------------------------------------------------

# What the text says where the release, which made the printed numbers, does otherwise.
ALWAYS = (
    "model.square=true",  # Sec. 3: "resize the image to 256x256"
    "model.project_captions=true",  # Eq. 2 has a W_g
    "model.normalize_features=false",  # Eq. 1 maps the features as they are
    "loss.reduction=mean",  # Eq. 4
    "gradient_clip=0",  # no word of clipping
)
INSTEAD = {
    ("data", "crop", "random_resized"): "random",  # Sec. 3: RC is a crop of that image
    ("data", "crop_from", "original"): "resized",
    ("model", "similarity", "order_similarity_rooted"): "order_similarity",  # Sec. 3.5: squared
}
OF_ROWS = {"3.9": "model.normalize_images=false"}  # Sec. 3: VSE0 keeps the image norm
VALIDATION = {"coco": 0, "f30k": 1000}  # Sec. 3.1: all of COCO's 5,000, of Flickr30K 1,000


def follow_the_text(content: Table) -> None:
    """Change a recipe's table to what the text says."""
    for change in ALWAYS:
        apply(content, change)
    for (table, key, release), paper in INSTEAD.items():
        if content.get(table, {}).get(key) == release:
            content[table][key] = paper
    if content["name"] in OF_ROWS:
        apply(content, OF_ROWS[content["name"]])
    collection = content.get("data", {}).get("collection")
    if collection in VALIDATION:
        content["data"]["validate_images"] = VALIDATION[collection]
