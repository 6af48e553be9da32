"""How large a batch of raw pictures can be learned from on one GPU?

    python benchmarks/large_batch.py      two minutes on an H200

ResNet50, fine-tuned, with pictures of 224 px: batches of up to 512 pairs embedded at once, and of up to
8,192 in chunks that are embedded again in the backward pass (`training/divided.py`). Seconds, pictures a second and the peak of the
device's memory for one step; and at 512, how far the two gradients are apart.
"""

import json
from pathlib import Path
from typing import Any

import torch
from records import write_record
from timing import DEVICE, repeated, summary
from torch import Tensor

from vsepp.devices import ALONE, prepare
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges
from vsepp.loading.batches import Batch
from vsepp.training.divided import DividedStepper
from vsepp.training.loop import Objective, PlainStepper, Updater
from vsepp.training.trainer import adam

CHUNK = 256


def main() -> None:
    prepare(DEVICE)
    torch.manual_seed(0)
    plan = Architecture(num_words=10_000, backbone="resnet50")
    model = JointEmbedding.build(plan, finetune=True, fixed_statistics=True).to(DEVICE).train()
    measured: dict[str, Any] = {"chunk": CHUNK, "gradients_at_512": gradients_apart(model)}
    for size, chunk in ((128, None), (512, None), (512, CHUNK), (8_192, CHUNK)):
        name = f"{size}" if chunk is None else f"{size}_in_chunks"
        measured[name] = one_step(model, batch_of(size), chunk)
        print(name, measured[name], flush=True)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def batch_of(size: int) -> Batch:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (size, 3, 224, 224), dtype=torch.uint8, generator=generator)
    words = torch.randint(10_000, (size, 14), generator=generator)
    return Batch(pixels, words, torch.full((size,), 14), torch.arange(size)).to(DEVICE)


def step(model: JointEmbedding, batch: Batch, chunk: int | None) -> Tensor:
    model.zero_grad()
    updater = Updater(model, adam(model), gradient_clip=0.0)
    rest = [batch], updater, DEVICE, "tf32"
    stepper = DividedStepper(model, *rest, chunk, ALONE) if chunk else PlainStepper(model, *rest)
    return stepper.backward(batch, Objective(max_of_hinges))


def one_step(model: JointEmbedding, batch: Batch, chunk: int | None) -> dict[str, Any]:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    times = 5 if len(batch) < 1_000 else 3  # the large one takes five seconds each
    taken = summary(repeated(lambda: step(model, batch, chunk), times, 1), digits=3)
    return {
        "seconds": taken,
        "pictures_per_second": round(len(batch) / taken["median"]),
        "gigabytes": round(torch.cuda.max_memory_allocated() / 1e9, 1),
    }


def gradients_apart(model: JointEmbedding) -> float:
    """The distance of the two gradients by the length of one; TF32's rounding is left out."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    gradients = []
    for chunk in (None, CHUNK):
        step(model, batch_of(512), chunk)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))  # fmt: skip
    prepare(DEVICE)
    whole, chunked = gradients
    return float((chunked - whole).norm() / whole.norm())


if __name__ == "__main__":
    main()
