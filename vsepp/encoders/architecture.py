"""The description of a model (config.json), without torch, and the hashes that identify it."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from vsepp.data.pictures import View
from vsepp.errors import WrongRequest

FORMAT = 1
CONFIG = "config.json"
IN_THE_BOX = Path(__file__).parents[1] / "pretrained" / "default"
LARGEST = 8192  # pixels or dimensions of a model
Int8 = Literal["none", "words", "all"]  # matrices that a snapshot stores in 8 bits
FEATURES = "features:"  # features:4096 has no backbone: its images are vectors of that length


@dataclass(frozen=True)
class Design:
    """What a recipe may choose."""

    backbone: str = "small"
    size: int = 224  # of the crop that the net sees
    resize: int = 256  # the short side of the image that it is cut from
    square: bool = False  # squeeze the whole image into resize x resize instead
    dim: int = 1024
    hidden: int = (
        0  # width of the GRU, whose states W_g brings into the space; 0: dim, as the paper
    )
    word_dim: int = 300
    caption_encoder: Literal["gru", "bag"] = "gru"  # of the words one after another, or their mean
    bidirectional: bool = False  # a second GRU reads the caption from its end
    pooling: Literal["last", "mean", "max", "gpo"] = "last"  # of the GRU's states
    similarity: str = "inner_product"
    normalize_images: bool = True
    normalize_features: bool = True
    project_captions: bool = False
    absolute: bool = False


@dataclass(frozen=True, kw_only=True)
class Architecture(Design):
    """All that is needed to build the same net again, without its training data."""

    num_words: int
    crops: int = 1  # of an image in use: 1 is the center; 10 are averaged (10C)

    @property
    def view(self) -> View:
        return View(self.size, self.resize, self.square, self.crops)

    @property
    def takes_features(self) -> bool:
        return self.backbone.startswith(FEATURES)


def read_config(folder: Path) -> tuple[Architecture, dict[str, Any]]:
    """Architecture and notes of a snapshot; other folders are refused with a message."""
    file = folder / CONFIG
    if not file.is_file():
        raise WrongRequest(
            f"{folder} is not a snapshot: it has no {CONFIG}. `vsepp train` creates one."
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        version, keys = config["format"], dict(config["architecture"])
    except (ValueError, KeyError, TypeError) as error:
        raise WrongRequest(f"{file} is not the {CONFIG} of a snapshot ({error!r}).") from error
    unknown = set(keys) - {field.name for field in fields(Architecture)}
    if version != FORMAT or unknown:
        raise WrongRequest(
            f"{file} was written by another version of vsepp (format {version}, "
            f"this one reads {FORMAT}{'; unknown: ' + ', '.join(unknown) if unknown else ''})."
        )
    _check_values(file, keys)
    notes = config.get("notes", {})
    return Architecture(**keys), notes if isinstance(notes, dict) else {}


def _check_values(file: Path, keys: dict[str, Any]) -> None:
    """Files are untrusted: types and ranges are checked before anything is built from them."""
    for key, kind in get_type_hints(Architecture).items():
        value = keys.get(key)
        if key not in keys and key != "num_words":
            continue
        if kind is int:
            fits = type(value) is int and value >= 0 and (value <= LARGEST or key == "num_words")
        elif kind in (bool, str):
            fits = type(value) is kind
        else:
            fits = value in get_args(kind)
        if not fits:
            raise WrongRequest(f"{file}: {key} = {value!r} is not a valid value.")


# ---- which model it is ----------------------------------------------------------------------

WEIGHT_FILES = ("tokenizer.json", "model.safetensors")
GRAPH_FILES = ("image.onnx", "caption.onnx")


def snapshot_identities(folder: Path) -> list[str]:
    """A hash of a snapshot's architecture and files, and one without its graphs.

    Version 0.1 knew the latter only: any graphs with the same weights match it.
    """
    architecture, _ = read_config(folder)
    # A key that a later version adds with a default value does not make another model.
    defaults = {field.name: field.default for field in fields(Architecture)}
    plan = {key: value for key, value in asdict(architecture).items() if value != defaults[key]}
    files = b"".join(_digest(folder / name) for name in WEIGHT_FILES)
    weights = hashlib.sha256(json.dumps(plan, sort_keys=True).encode() + files).hexdigest()
    graphs = hashlib.sha256(b"".join(_digest(folder / name) for name in GRAPH_FILES)).hexdigest()
    return [f"{weights}:{graphs}", weights]


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
