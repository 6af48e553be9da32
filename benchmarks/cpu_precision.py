"""How much faster does a net learn in bfloat16 on this CPU?

    python benchmarks/cpu_precision.py            two minutes on one core

A step of fine-tuning (forward and backward pass of the image encoder) in float32 and in bf16, in turns, in seconds of
processor time. Only CPUs with instructions for it gain: AVX-512 BF16 or AMX.
"""

import json
import time
from pathlib import Path

import torch
from records import write_record
from timing import summary

from vsepp.devices import Precision, computing_in
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding

NETS, BATCH, ROUNDS = ("tiny_vit_5m_224", "tf_efficientnet_lite1", "resnet50"), 16, 7


def main() -> None:
    torch.manual_seed(0)
    measured = {}
    for net in NETS:
        model = JointEmbedding.build(
            Architecture(backbone=net, num_words=10, size=224), finetune=True
        ).train()
        images = torch.rand(BATCH, 3, 224, 224)
        step(model, images, "float32"), step(model, images, "bf16")  # the first ones allocate
        times = [
            (step(model, images, "float32"), step(model, images, "bf16")) for _ in range(ROUNDS)
        ]
        measured[net] = {
            "float32_s": summary([single for single, _ in times], digits=3),
            "bf16_s": summary([half for _, half in times], digits=3),
            "float32_to_bf16": summary([single / half for single, half in times], digits=2),
        }
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def step(model: JointEmbedding, images: torch.Tensor, precision: Precision) -> float:
    started = time.process_time()
    with computing_in(precision):
        model.image_encoder(images).square().sum().backward()
    return time.process_time() - started


if __name__ == "__main__":
    main()
