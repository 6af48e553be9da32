"""How fast are photos and captions embedded on a CPU?

    python benchmarks/embed.py            three minutes on two cores

The model in the box on 400 rendered photos of 640 x 480 and on 2,000 captions: `vsepp.load()` (onnxruntime); the
obvious way (torch, eager: open, resize, crop and embed one after another, captions padded in the order they come);
and the same torch net as a module of sentence-transformers, where that is installed. All take turns. For photos
also what cannot be saved: decoding alone plus the net alone, on the same cores.
"""

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from records import write_record
from rendered_photos import write_photos
from timing import seconds, summary

import vsepp
from vsepp.encoders.architecture import IN_THE_BOX
from vsepp.encoders.joint import JointEmbedding
from vsepp.loading.batches import pad

PHOTOS, CAPTIONS, ROUNDS, BATCH = 400, 2_000, 5, 32
Way = Callable[[], np.ndarray]


def main() -> None:
    ours, snapshot = vsepp.load(), vsepp.Snapshot.load(IN_THE_BOX)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "photos"
        write_photos([folder], PHOTOS)
        files = sorted(folder.iterdir())
        texts = captions(ours.vocabulary.words())
        photos: dict[str, Way] = {
            "ours": lambda: ours.embed_images(files),
            "decode_plus_net": lambda: decode_and_net(ours, files),
            "obvious": lambda: eager_photos(snapshot, files),
        }
        words: dict[str, Way] = {
            "ours": lambda: ours.embed_texts(texts),
            "obvious": lambda: eager_texts(snapshot, texts),
        }
        if find_spec("sentence_transformers"):
            photos["sentence_transformers"] = peer(snapshot, files, PhotoModule)
            words["sentence_transformers"] = peer(snapshot, texts, TextModule)
        measured: dict[str, Any] = {"photos": PHOTOS, "captions": CAPTIONS}
        for kind, ways, count in (("photos", photos, PHOTOS), ("captions", words, CAPTIONS)):
            measured |= compared(kind, ways, count)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("onnxruntime", "sentence-transformers", "pillow"))


def captions(known: list[str]) -> list[str]:
    generator = np.random.default_rng(0)
    lengths = generator.integers(5, 20, CAPTIONS)
    return [" ".join(generator.choice(known, length)) for length in lengths]


def compared(kind: str, ways: dict[str, Way], count: int) -> dict[str, Any]:
    vectors = {name: way() for name, way in ways.items()}  # also a warm-up
    for name, other in vectors.items():
        assert np.abs(other - vectors["ours"]).max() < 2e-3, (
            name
        )  # half precision, and two runtimes
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            times[name].append(seconds(way))
    measured = {
        f"{kind}_{name}_per_second": summary([count / value for value in values], digits=1)
        for name, values in times.items()
    }
    for name in ways.keys() - {"ours"}:
        ratios = [a / b for a, b in zip(times[name], times["ours"], strict=True)]
        measured[f"{kind}_ours_to_{name}"] = summary(ratios, digits=2)
    return measured


def decode_and_net(model: vsepp.Embedder, files: list[Path]) -> np.ndarray:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pictures = list(pool.map(model.architecture.view.resized, files))
    return model.embed_images(pictures)


@torch.inference_mode()
def eager_photos(snapshot: vsepp.Snapshot, files: list[Path]) -> np.ndarray:
    return np.concatenate([pixels_to_vectors(snapshot, [file]).numpy() for file in files])


def pixels_to_vectors(snapshot: vsepp.Snapshot, files: list[Path]) -> torch.Tensor:
    view = snapshot.architecture.view
    pixels = torch.from_numpy(np.stack([view.cut(view.resized(file)) for file in files]))
    return snapshot.model.embed_images(pixels)


@torch.inference_mode()
def eager_texts(snapshot: vsepp.Snapshot, texts: list[str]) -> np.ndarray:
    parts = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    return np.concatenate([words_to_vectors(snapshot, part).numpy() for part in parts])


def words_to_vectors(snapshot: vsepp.Snapshot, texts: list[str]) -> torch.Tensor:
    words = [np.array(ids) for ids in snapshot.vocabulary.encode(texts)]
    return snapshot.model.embed_captions(*pad(words))


class PhotoModule(torch.nn.Module):
    """The net as sentence-transformers wants it: tokenize() makes a batch, forward() its vectors."""

    def __init__(self, snapshot: vsepp.Snapshot) -> None:
        super().__init__()
        self.model: JointEmbedding = snapshot.model
        self.snapshot = snapshot

    def tokenize(self, files: list[Path]) -> dict[str, Any]:
        view = self.snapshot.architecture.view
        pixels = [view.cut(view.resized(file)) for file in files]
        return {"pixels": torch.from_numpy(np.stack(pixels))}

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        return batch | {"sentence_embedding": self.model.embed_images(batch["pixels"])}


class TextModule(PhotoModule):
    def tokenize(self, texts: list[str]) -> dict[str, Any]:
        words = [np.array(ids) for ids in self.snapshot.vocabulary.encode(texts)]
        ids, lengths = pad(words)
        return {"words": ids, "lengths": lengths}

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        vectors = self.model.embed_captions(batch["words"], batch["lengths"])
        return batch | {"sentence_embedding": vectors}


def peer(snapshot: vsepp.Snapshot, inputs: list[Any], module: type[PhotoModule]) -> Way:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(modules=[module(snapshot)], device="cpu")
    return lambda: encoder.encode(inputs, batch_size=BATCH, convert_to_numpy=True)


if __name__ == "__main__":
    main()
