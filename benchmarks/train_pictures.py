"""How fast does the model learn from pictures, with random crops (RC)?

    python benchmarks/train_pictures.py       five minutes on an H200; on two CPU cores, a minute

ResNet152 on a GPU (the small net of the built-in world on a CPU), frozen and fine-tuned, in batches of 128.
Beside our loop: the net alone on pixels that are already there, forward and forward + backward in the same
precision, which no loop can beat; and the obvious loop: a DataLoader whose workers decode, crop and flip with
torchvision, eager single precision. `streamed` is our loop where the pictures neither stay on the GPU nor in
memory, and are decoded again in every epoch.
"""

import json
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from coco_like import WORDS, coco_like
from obvious import collate, hardest_negatives
from PIL import Image
from records import write_record
from timing import DEVICE, seconds, summary, wait
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from vsepp.data.captioned import CaptionedImage
from vsepp.devices import computing_in, prepare
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges
from vsepp.loading.batches import Pairs
from vsepp.loading.on_device import PicturesOnDevice
from vsepp.training.loop import Phase, Step, trained_parameters
from vsepp.training.trainer import steps_and_epochs

GPU = DEVICE.type == "cuda"
BATCH, WINDOWS, RATE = 128, 5, 2e-5
PHASES = [Phase(1_000, RATE, max_of_hinges)]
NET, SIZE, RESIZE = ("resnet152", 224, 256) if GPU else ("small", 64, 72)
PHOTOS = 2_000 if GPU else 200
Walk = Generator[int]  # pictures done


def main() -> None:
    prepare(DEVICE)
    with tempfile.TemporaryDirectory() as folder:
        pairs, vocabulary = photos(Path(folder))
        measured: dict[str, Any] = {"net": NET, "batch": BATCH, "photos": PHOTOS}
        started = time.perf_counter()
        near = pairs.with_images(PicturesOnDevice.of(pairs.items, plan().view, DEVICE))
        wait()
        measured["seconds_to_decode"] = round(time.perf_counter() - started, 2)
        measured["cut_1024_ms"] = cutting(near)
        rates = {}
        for name, finetune in (("frozen", False), ("finetuned", True)):
            many = 16 if finetune else 48
            rates[f"{name}_net_alone"] = windows(net_alone(finetune), many)
            rates[name] = windows(ours(near, finetune), many)
            rates[f"{name}_streamed"] = windows(ours(pairs, finetune), 8)
            rates[f"{name}_obvious"] = windows(obvious(pairs, vocabulary, finetune), 8)
    for name, values in rates.items():
        measured[f"{name}_per_second"] = summary(values, digits=0)
    for name in ("frozen", "finetuned"):
        for other in ("net_alone", "obvious"):
            both = zip(rates[name], rates[f"{name}_{other}"], strict=True)
            measured[f"{name}_to_{other}"] = summary([a / b for a, b in both], digits=3)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("torchvision", "timm", "triton"))


def photos(folder: Path) -> tuple[Pairs, Any]:
    """JPEG files of 640 x 480 with a photo's mix of smooth and rough, and COCO's captions."""
    generator = np.random.default_rng(0)
    like, vocabulary = coco_like(PHOTOS)
    items = []
    for number, item in enumerate(like.items):
        coarse = generator.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        fine = generator.normal(0, 12, (480, 640, 1))
        smooth = np.asarray(Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC))
        file = folder / f"{number}.jpg"
        Image.fromarray(np.clip(smooth + fine, 0, 255).astype(np.uint8)).save(file, quality=90)
        items.append(CaptionedImage(item.key, file, item.captions, "train"))
    return Pairs(items, vocabulary, plan().view, memory=0), vocabulary


def plan() -> Architecture:
    return Architecture(num_words=WORDS + 4, backbone=NET, size=SIZE, resize=RESIZE)


def model(finetune: bool) -> JointEmbedding:
    torch.manual_seed(0)
    return JointEmbedding.build(plan(), finetune=finetune, fixed_statistics=True).to(DEVICE)


def cutting(near: Pairs) -> dict[str, Any]:
    batches = near.batches(BATCH, "random_resized")
    epoch = batches.epoch(0)
    first = [epoch.order[:1024]]
    times = [seconds(lambda: next(epoch.image_groups(first, 8))) for _ in range(6)]
    return summary(times[1:], 1e-3, 2)


def net_alone(finetune: bool) -> Walk:
    """On pixels that are there, and no loss: the frozen net on 512 at a time, as ours."""
    encoder = model(finetune).image_encoder.train()
    encoder.use_fast_training()
    count = BATCH if finetune else (512 if GPU else BATCH)
    pixels = torch.randint(0, 256, (count, 3, SIZE, SIZE), dtype=torch.uint8, device=DEVICE)
    pixels = pixels.to(memory_format=torch.channels_last)
    while True:
        with computing_in("bf16"):
            features = encoder.features(pixels)
            if finetune:
                features.sum().backward()
                encoder.zero_grad(set_to_none=True)
        yield count


def ours(pairs: Pairs, finetune: bool) -> Walk:
    learner = model(finetune)
    learner.image_encoder.use_fast_training()
    batches = pairs.batches(BATCH, "random_resized")
    events = steps_and_epochs(learner, batches, PHASES)
    return (event.num_pairs for event in events if isinstance(event, Step))


class PictureDataset(Dataset[tuple[Tensor, list[int], int]]):
    def __init__(self, pairs: Pairs, vocabulary: Any) -> None:
        self.files = [item.path for item in pairs.items]
        self.captions = [caption for item in pairs.items for caption in item.captions]
        self.owners, self.vocabulary = pairs.image_of_caption.tolist(), vocabulary
        self.look = transforms.Compose(
            [
                transforms.Resize(RESIZE),
                transforms.RandomResizedCrop(SIZE),
                transforms.RandomHorizontalFlip(),
                transforms.PILToTensor(),
            ]
        )

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, number: int) -> tuple[Tensor, list[int], int]:
        owner = self.owners[number]
        pixels = self.look(Image.open(self.files[owner]).convert("RGB"))
        return pixels, self.vocabulary.encode([self.captions[number]])[0], owner


def obvious(pairs: Pairs, vocabulary: Any, finetune: bool) -> Walk:
    learner = model(finetune).train()
    trained = trained_parameters(learner)
    optimizer = torch.optim.Adam(trained, lr=RATE)
    loader = DataLoader(
        PictureDataset(pairs, vocabulary),
        BATCH,
        shuffle=True,
        collate_fn=collate,
        num_workers=os.cpu_count() or 1,
        pin_memory=GPU,
        persistent_workers=True,
    )
    while True:
        for batch in loader:
            total = hardest_negatives(learner, batch.to(DEVICE))
            optimizer.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(trained, 2.0)
            optimizer.step()
            total.item()
            yield len(batch)


def windows(walk: Walk, batches: int) -> list[float]:
    """Pictures a second, window by window. One walk after another: loaders work ahead of their time."""
    advance(walk, 40 * BATCH if GPU else 2 * BATCH)  # kernels are chosen, graphs recorded
    rates = []
    for _ in range(WINDOWS):
        wait()
        started = time.perf_counter()
        done = advance(walk, batches * BATCH if GPU else 2 * BATCH)
        wait()
        rates.append(done / (time.perf_counter() - started))
    walk.close()
    return rates


def advance(walk: Walk, pictures: int) -> int:
    done = 0
    while done < pictures:
        done += next(walk)
    return done


if __name__ == "__main__":
    main()
