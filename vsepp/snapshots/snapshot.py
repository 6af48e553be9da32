"""A trained model as a folder: safetensors weights, ONNX graphs, tokenizer and config; nothing pickled."""

import json
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import CONFIG, FORMAT, Architecture, Int8, read_config
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.export import export_captions, export_images
from vsepp.snapshots.quantized import WORDS as WORD_VECTORS
from vsepp.snapshots.quantized import in_float, in_int8, matrices

WEIGHTS, WORDS, CARD = "model.safetensors", "tokenizer.json", "README.md"
IN_CONFIG_ALONE = ("recipe", "fingerprint")  # notes that are too long for a card
CAPTIONS_BY = {"gru": "a GRU", "bag": "a bag of words"}
GRAPHS = ("image.onnx", "caption.onnx")
LARGEST_HALF = torch.finfo(torch.float16).max


@dataclass(frozen=True)
class Snapshot:
    """A model with its vocabulary; `notes` record its provenance."""

    model: JointEmbedding
    vocabulary: Vocabulary
    architecture: Architecture
    notes: dict[str, Any] = field(default_factory=dict)

    def save(
        self,
        folder: Path | str,
        graphs: bool = True,
        half: bool = False,
        int8: Int8 = "none",
    ) -> Path:
        """Write the folder, with or without its ONNX graphs, which take some seconds.

        With `half`, matrices are stored in half precision: half the size, and vectors that agree to
        three digits. With `int8="words"`, the word vectors are stored in 8 bits, which most of a large
        vocabulary's size is; with "all", so are the matrices of the net and of the caption encoder, and
        the image graph multiplies in 8 bits, too. Everything is written to a draft first: an earlier
        snapshot stays valid until then.
        """
        folder = Path(folder)
        draft = folder / ".draft"  # one name, so that the next run clears what a killed one left
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            self._write(draft, half, int8)
            if graphs:
                stored = self.rounded(half, int8).model
                export_images(stored.image_encoder, self.architecture, draft / WEIGHTS)
                export_captions(stored.caption_encoder, draft / WEIGHTS)
            _replace_folder(folder, draft)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return folder

    def rounded(self, half: bool = False, int8: Int8 = "none") -> "Snapshot":
        """With the weights that `save` stores and `load` reads again."""
        if not half and int8 == "none":
            return self
        model = JointEmbedding.build(self.architecture)
        model.load_state_dict(in_float(self._stored_weights(half, int8)))
        return replace(self, model=model.eval())

    def _stored_weights(self, half: bool, int8: Int8) -> dict[str, Tensor]:
        weights = {
            name: tensor.detach().cpu().contiguous()
            for name, tensor in self.model.state_dict().items()
        }
        if int8 != "none":
            weights = in_int8(weights, matrices(weights) if int8 == "all" else [WORD_VECTORS])
        return {name: _halved(tensor) for name, tensor in weights.items()} if half else weights

    def _write(self, folder: Path, half: bool, int8: Int8) -> None:
        weights = self._stored_weights(half, int8)
        try:
            save_file(weights, folder / WEIGHTS)
        except SafetensorError as error:  # such as a full disk
            raise OSError(f"{folder / WEIGHTS} could not be written ({error})") from error
        self.vocabulary.save(folder / WORDS)
        config = {
            "format": FORMAT,
            "architecture": asdict(self.architecture),
            "notes": self.notes,
        }
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")
        # safetensors writes mode 0600: give the weights the mode of the other files
        shutil.copymode(folder / CONFIG, folder / WEIGHTS)
        (folder / CARD).write_text(self._card(), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path | str, finetune: bool = False) -> "Snapshot":
        """The model in evaluation mode on the CPU, its backbone frozen unless `finetune`."""
        folder = Path(folder)
        architecture, notes = read_config(folder)
        try:
            _check_sizes(architecture, folder / WEIGHTS)
            model = JointEmbedding.build(architecture, finetune=finetune)
            model.load_state_dict(in_float(load_file(folder / WEIGHTS)))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise WrongRequest(f"{folder / WEIGHTS} does not fit {CONFIG}: {error}") from error
        vocabulary = Vocabulary.load(folder / WORDS)
        return cls(model.eval(), vocabulary, architecture, notes)

    def _card(self) -> str:
        plan = self.architecture
        shown = {name: value for name, value in self.notes.items() if name not in IN_CONFIG_ALONE}
        notes = "\n".join(f"- {name}: {_as_text(value)}" for name, value in shown.items())
        return (
            f"# A joint space of pictures and captions\n\n"
            f"`{plan.backbone}` and {CAPTIONS_BY[plan.caption_encoder]}, {plan.dim} dimensions, {plan.num_words} words, "
            f"compared by `{plan.similarity}`.\n\n{notes}\n\n"
            "- `model.safetensors`, `config.json`: the weights, for `vsepp.Snapshot.load`\n"
            "- `image.onnx`, `caption.onnx`, `tokenizer.json`: the same model for `vsepp.load`, "
            "which needs no torch; the graphs read their numbers from `model.safetensors`\n"
        )


def _as_text(note: Any) -> str:
    return (
        ", ".join(f"{k} {_as_text(v)}" for k, v in note.items())
        if isinstance(note, dict)
        else str(note)
    )


def check_no_snapshot(folder: Path) -> None:
    if (folder / CONFIG).exists():
        raise WrongRequest(f"{folder} already contains a snapshot. Use another folder.")


def _halved(tensor: Tensor) -> Tensor:
    """Matrices in half precision; biases and batch norm statistics are kept."""
    if tensor.dtype != torch.float32 or tensor.dim() < 2 or tensor.abs().max() > LARGEST_HALF:
        return tensor
    return tensor.half()


def _replace_folder(folder: Path, draft: Path) -> None:
    """Move the draft's files into place; other files stay as they are."""
    for graph in GRAPHS:
        (folder / graph).unlink(missing_ok=True)  # it would not fit the new weights
    for file in draft.iterdir():
        file.replace(folder / file.name)


def _check_sizes(plan: Architecture, file: Path) -> None:
    """Before a model is built from an untrusted configuration, which may ask for any number of words."""
    width = plan.word_dim if plan.caption_encoder == "gru" else plan.dim
    with safe_open(file, "pt") as weights:
        words = weights.get_slice("caption_encoder.words.weight").get_shape()
        space = weights.get_slice("image_encoder.linear.weight").get_shape()[0]
    if words != [plan.num_words, width] or space != plan.dim:
        raise RuntimeError(f"words {words} and {space} dimensions")
