"""Converts the authors' released models, and those of their followers, to snapshots.

vsepp import model_best.pth.tar --vocabulary coco_vocab.pkl --into models/coco
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from torch import Tensor

from vsepp.data.tokens import SPECIALS, Vocabulary
from vsepp.data.treebank import cutter_of
from vsepp.encoders.architecture import FEATURES, Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.pickles import PlainUnpickler, read_torch_file, reading
from vsepp.snapshots.snapshot import Snapshot

SIMILARITIES = {"cosine": "inner_product", "order": "order_similarity_rooted"}
NETS = ("vgg", "resnet", "wide_resnet", "resnext")
NOTED = ("data_name", "cnn_type", "finetune", "measure", "max_violation", "margin", "use_restval")
RENAMED = {
    "embed.": "caption_encoder.words.",
    "rnn.": "caption_encoder.gru.",
    "fc.": "image_encoder.linear.",
    # VGG's fully connected layers, as torchvision counted them when the release was made, and since
    "cnn.classifier.1.": "image_encoder.backbone.net.pre_logits.fc1.",
    "cnn.classifier.4.": "image_encoder.backbone.net.pre_logits.fc2.",
    "cnn.classifier.0.": "image_encoder.backbone.net.pre_logits.fc1.",
    "cnn.classifier.3.": "image_encoder.backbone.net.pre_logits.fc2.",
    "cnn.": "image_encoder.backbone.net.",
}
EXPECTED = "a checkpoint of the release, such as model_best.pth.tar"
EXPECTED_VOCABULARY = (
    "a vocabulary of the release, such as coco_vocab.pkl or coco_precomp_vocab.json"
)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint of the release holds."""

    image: dict[str, Tensor]
    caption: dict[str, Tensor]
    options: dict[str, Any]
    epoch: float | None = None
    best_rsum: float | None = None


def read_release(checkpoint: Path, vocabulary: Path) -> Snapshot:
    """The model of a checkpoint with the words of a vocabulary file; no code of either is run."""
    found, words = read_checkpoint(checkpoint), read_vocabulary(vocabulary)
    _check(found, checkpoint)
    _check_words(found, words, vocabulary)
    plan = _architecture(found, checkpoint)
    model = JointEmbedding.build(plan)
    tensors = {_our_name(name): tensor for name, tensor in (found.image | found.caption).items()}
    _fill(model, tensors, checkpoint)
    with checkpoint.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    notes = {
        "imported_from": checkpoint.name,
        "sha256": digest,
        "vocabulary": vocabulary.name,
        "words_cut_as": words.cutter,
        "epoch": found.epoch,
        "best_rsum": found.best_rsum,
        "options": {key: found.options[key] for key in NOTED if _is_plain(found.options.get(key))},
    }
    return Snapshot(model.eval(), words, plan, notes)


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def _check(found: Checkpoint, file: Path) -> None:
    for part, tensors, matrices in (
        ("image", found.image, ["fc.weight"]),
        ("caption", found.caption, ["embed.weight", "rnn.weight_ih_l0"]),
    ):
        for name in matrices:
            if name not in tensors or tensors[name].dim() != 2 or not tensors[name].numel():
                raise WrongRequest(
                    f"{file}: the {part} encoder has no matrix {name}. Expected {EXPECTED}."
                )
    layers = sum(name.startswith("rnn.weight_ih_l") for name in found.caption)
    if layers != 1:
        raise WrongRequest(
            f"{file}: its GRU has {layers} layers or directions. Only a single one is supported, as in "
            "all of the paper's models."
        )


def _check_words(found: Checkpoint, words: Vocabulary, file: Path) -> None:
    num_words, data = len(found.caption["embed.weight"]), found.options.get("data_name")
    if len(words) != num_words:
        raise WrongRequest(
            f"{file} has {len(words):,} words, the checkpoint {num_words:,}. Use the vocabulary that it "
            f"was trained with{f': {data}_vocab.pkl' if data else ''}."
        )


def _architecture(found: Checkpoint, file: Path) -> Architecture:
    measure = found.options.get("measure", "cosine")
    if not isinstance(measure, str) or measure not in SIMILARITIES:
        known = ", ".join(SIMILARITIES)
        raise WrongRequest(f"{file}: unknown measure {measure!r}. Known: {known}.")
    takes_features = not any(name.startswith("cnn.") for name in found.image)
    dim, num_features = found.image["fc.weight"].shape
    num_words, word_dim = found.caption["embed.weight"].shape
    return Architecture(
        backbone=f"{FEATURES}{num_features}" if takes_features else _net(found, file),
        dim=dim,
        word_dim=word_dim,
        similarity=SIMILARITIES[measure],
        normalize_images=found.options.get("no_imgnorm") is not True,
        normalize_features=not takes_features,  # the release expects them to be normalised already
        absolute=found.options.get("use_abs") is True,
        num_words=num_words,
    )


def _net(found: Checkpoint, file: Path) -> str:
    name = found.options.get("cnn_type")
    # The name is untrusted and goes to timm: only plain names of known families.
    if not isinstance(name, str) or not name.startswith(NETS) or not name.isidentifier():
        raise WrongRequest(
            f"{file}: its backbone is {name!r}. Supported: VGG and ResNet by torchvision's names, "
            "such as vgg19 and resnet152."
        )
    return name


def _our_name(name: str) -> str:
    for theirs, ours in RENAMED.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _fill(model: JointEmbedding, found: dict[str, Tensor], file: Path) -> None:
    wanted = model.state_dict()
    # torch 0.2 did not count the batches that a batch norm had seen; nothing depends on it
    found = {n: t for n, t in wanted.items() if n.endswith("num_batches_tracked")} | found
    if different := sorted(set(wanted) ^ set(found)):
        raise WrongRequest(
            f"{file} does not match a model of the release: {len(different)} tensors are missing or "
            f"unexpected, first {different[0]}."
        )
    # timm has VGG's fully connected layers as convolutions of the same weights
    for name, tensor in found.items():
        if "pre_logits" in name and tensor.numel() == wanted[name].numel():
            found[name] = tensor.reshape(wanted[name].shape)
        if found[name].shape != wanted[name].shape:
            shapes = tuple(tensor.shape), tuple(wanted[name].shape)
            raise WrongRequest(f"{file}: {name} is {shapes[0]}, expected {shapes[1]}.")
    model.load_state_dict(found)


def read_checkpoint(file: Path) -> Checkpoint:
    """Tensors and options; anything but plain data is refused."""
    with reading(file, EXPECTED) as stream:
        content = read_torch_file(stream)
        if not isinstance(content, dict) or not {"model", "opt"} <= set(content):
            has = f" It has {', '.join(map(str, content))}." if isinstance(content, dict) else ""
            raise WrongRequest(f"{file} has no `model` and `opt`.{has} Expected {EXPECTED}.")
        image, caption = (_tensors(part) for part in content["model"])
        options = content["opt"]
        options = options if isinstance(options, dict) else dict(vars(options))
        score = [content.get(key) for key in ("epoch", "best_rsum")]
        epoch, best_rsum = (n if isinstance(n, (int, float)) else None for n in score)
        return Checkpoint(image, caption, options, epoch, best_rsum)


def _tensors(state: dict[str, Any]) -> dict[str, Tensor]:
    """By name, without DataParallel's `module` prefix, in single precision."""
    tensors = {}
    for name, tensor in state.items():
        parts = [part for part in name.split(".") if part != "module"]
        tensors[".".join(parts)] = tensor.float() if tensor.is_floating_point() else tensor
    return tensors


def read_vocabulary(file: Path) -> Vocabulary:
    """The words of a vocabulary file, with the tokenizer rules that it was made with."""
    with reading(file, EXPECTED_VOCABULARY) as stream:
        is_json = stream.peek(1).lstrip().startswith(b"{")  # type: ignore[attr-defined]
        ids = json.load(stream)["word2idx"] if is_json else _pickled_ids(stream)
        _check_ids(ids, file)
        return Vocabulary.of_ids(ids, cutter_of(word for word in ids if word not in SPECIALS))


def _pickled_ids(stream: BinaryIO) -> Any:
    holder = type("Vocabulary", (), {})  # its module was __main__ or vocab, or some follower's
    unpickler = PlainUnpickler(stream, lambda _, name: holder if name == "Vocabulary" else None)
    return unpickler.load().word2idx


def _check_ids(ids: Any, file: Path) -> None:
    if not isinstance(ids, dict) or not all(isinstance(word, str) for word in ids):
        raise WrongRequest(f"{file} has no table of words and ids. Expected {EXPECTED_VOCABULARY}.")
    if sorted(ids.values()) != list(range(len(ids))):
        raise WrongRequest(
            f"{file}: the ids of its {len(ids):,} words are not 0 to {len(ids) - 1:,}."
        )
    missing = [special for special in SPECIALS if special not in ids]
    if missing:
        raise WrongRequest(f"{file} lacks {', '.join(missing)}. Expected {EXPECTED_VOCABULARY}.")
