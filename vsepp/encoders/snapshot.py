"""A trained model as a folder: weights for training, ONNX graphs for use, nothing pickled."""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import CONFIG, FORMAT, Architecture, read_config
from vsepp.encoders.export import export_captions, export_images
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest

WEIGHTS, WORDS, CARD = "model.safetensors", "tokenizer.json", "README.md"
CAPTIONS_BY = {"gru": "a GRU", "bag": "a bag of words"}
GRAPHS = ("image.onnx", "caption.onnx")


@dataclass(frozen=True)
class Snapshot:
    """A model with the words it knows; `notes` say where it comes from."""

    model: JointEmbedding
    vocabulary: Vocabulary
    architecture: Architecture
    notes: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path | str, graphs: bool = True) -> Path:
        """Write the folder, with or without its ONNX graphs, which take some seconds to make.

        All is written to a draft first: what was there stays good until the draft is complete.
        """
        folder = Path(folder)
        draft = folder / ".draft"  # one name: what a killed run left is cleared by the next
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            self._write(draft, graphs)
            _replace_folder(folder, draft)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return folder

    def _write(self, folder: Path, graphs: bool) -> None:
        weights = {
            name: tensor.detach().cpu().contiguous()
            for name, tensor in self.model.state_dict().items()
        }
        try:
            save_file(weights, folder / WEIGHTS)
        except SafetensorError as error:  # its word for a disk that is full
            raise OSError(f"{folder / WEIGHTS} could not be written ({error})") from error
        (folder / WEIGHTS).chmod(0o644)  # safetensors lets nobody else read
        self.vocabulary.save(folder / WORDS)
        config = {
            "format": FORMAT,
            "architecture": asdict(self.architecture),
            "notes": self.notes,
        }
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")
        if graphs:
            export_images(self.model.image_encoder, self.architecture, folder / WEIGHTS)
            export_captions(self.model.caption_encoder, folder / WEIGHTS)
        (folder / CARD).write_text(self._card(), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path | str, finetune: bool = False) -> "Snapshot":
        """The model as it was saved, in evaluation mode, on the CPU.

        Its backbone is frozen, should it be trained further, unless `finetune` says otherwise.
        """
        folder = Path(folder)
        architecture, notes = read_config(folder)
        model = JointEmbedding.build(architecture, finetune=finetune)
        try:
            model.load_state_dict(load_file(folder / WEIGHTS))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise WrongRequest(f"{folder / WEIGHTS} does not fit {CONFIG}: {error}") from error
        vocabulary = Vocabulary.load(folder / WORDS)
        return cls(model.eval(), vocabulary, architecture, notes)

    def _card(self) -> str:
        plan = self.architecture
        notes = "\n".join(f"- {name}: {value}" for name, value in self.notes.items())
        return (
            f"# A joint space of pictures and captions\n\n"
            f"`{plan.backbone}` and {CAPTIONS_BY[plan.caption_encoder]}, {plan.dim} dimensions, {plan.num_words} words, "
            f"compared by `{plan.similarity}`.\n\n{notes}\n\n"
            "- `model.safetensors`, `config.json`: the weights, for `vsepp.Snapshot.load`\n"
            "- `image.onnx`, `caption.onnx`, `tokenizer.json`: the same model for `vsepp.load`, "
            "which needs no torch; the graphs read their numbers from `model.safetensors`\n"
        )


def _replace_folder(folder: Path, draft: Path) -> None:
    """Put the draft's files in place; what is not part of a snapshot stays as it is."""
    for graph in GRAPHS:
        (folder / graph).unlink(missing_ok=True)  # a graph without its weights would be wrong
    for file in draft.iterdir():
        file.replace(folder / file.name)
