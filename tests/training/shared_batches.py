"""What the processes of test_distributed.py do: all work twice, once shared and once alone, and compare."""

from functools import partial
from itertools import cycle, product

import torch
from torch import nn

from tests.models import SCENES
from tests.processes import groups_of
from tests.training.features import (
    pairs_with_features,
    plain_stepper,
    random_teacher,
    small_model,
)
from vsepp.data.collections import open_data
from vsepp.data.pictures import View
from vsepp.data.tokens import Vocabulary
from vsepp.devices import ALONE, init_processes
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import LOSSES, max_of_hinges, sum_of_hinges
from vsepp.evaluation.retrieval import embed, evaluate
from vsepp.experiments.preparation.teachers import teacher_of
from vsepp.experiments.stored_features import with_features
from vsepp.loading.batches import Batch, Pairs
from vsepp.training import divided
from vsepp.training.loop import Objective, Phase, trained_parameters
from vsepp.training.trainer import train

WORLD, NUMBERS = 4, (2, 4)  # two pairs of processes, then all four
SIZES = (12, 13, 1)  # evenly shared; one more for some; one pair, and nothing for the others
# Reduction, masked, nested widths, chunk_size
WAYS = tuple(product(("sum", "mean"), (False, True), ((), (4,)), (None, 2)))


def compare_all(rank, folder):
    """Writes {name: how far apart at most}; `rank` is torchrun's number of this process."""
    init_processes()
    divided.LARGE = 100  # some of these small models' gradients travel alone
    apart = {}
    for number in NUMBERS:
        processes = groups_of(number, WORLD)
        found = _comparisons(processes)
        apart |= {f"{number} processes, {name}": value for name, value in found.items()}
    torch.save(apart, folder / f"{rank}.pt")


def _comparisons(processes):
    parts = _losses, _teachers, _pictures, _batch_norms, _loops, _evaluation
    return {name: value for part in parts for name, value in part(processes).items()}


def _losses(processes):
    """Every loss with both similarities, each in one of the ways, so that all ways have their turns."""
    apart, pairs, turns = {}, pairs_with_features(20), cycle(WAYS)
    batches = [next(iter(pairs.batches(size))) for size in SIZES]
    for similarity in ("inner_product", "order_similarity"):
        model = small_model(similarity=similarity).double()
        for (name, loss), batch in product(LOSSES.items(), batches):
            ways = next(turns)
            key = f"{name}, {similarity}, batch {len(batch)}, {ways}"
            apart[key] = gradients_apart(model, batch, loss, ways, processes)
    return apart


def _teachers(processes):
    """A teacher's scores beside the hinges, and two models as teachers, embedded in shares."""
    apart, pairs = {}, pairs_with_features(20)
    taught = pairs.with_teacher(random_teacher(pairs))
    for (reduction, chunk), size in product((("sum", None), ("mean", 2)), SIZES):
        batch = next(iter(taught.batches(size)))
        ways = reduction, False, (4,), chunk
        model = small_model().double()
        key = f"taught, batch {size}, {reduction}, chunks {chunk}"
        apart[key] = gradients_apart(model, batch, max_of_hinges, ways, processes)
    data = open_data("shapes:40")
    names, cpu = [str(SCENES)] * 2, torch.device("cpu")
    alone, shared = (
        teacher_of(names, picture_pairs(), data, cpu, who) for who in (ALONE, processes)
    )
    return apart | {"teachers": _apart(vars(alone).values(), vars(shared).values())}


def picture_model(fixed_statistics=False):
    torch.manual_seed(0)
    plan = Architecture(num_words=60, size=32, resize=32, dim=8, word_dim=8)
    return JointEmbedding.build(plan, finetune=True, fixed_statistics=fixed_statistics).train()


def picture_pairs():
    items = open_data("shapes:40").split("train")[:12]
    return Pairs(items, Vocabulary.learn(c for i in items for c in i.captions), View(32, 36))


def _pictures(processes):
    """A net with batch norms, whose statistics are learned or fixed; and mixed precision."""
    apart, pairs = {}, picture_pairs()
    for fixed, size in product((True, False), (12, 13, 2)):
        batch = next(iter(pairs.batches(size)))
        model = picture_model(fixed).double()
        for chunk in (None, 5) if fixed else (None,):
            ways = "sum", False, (), chunk
            key = f"pictures, fixed {fixed}, batch {size}, chunks {chunk}"
            apart[key] = gradients_apart(model, batch, max_of_hinges, ways, processes)
    batch = next(iter(pairs.batches(13)))
    with torch.autocast("cpu", torch.bfloat16):
        ways = "sum", False, (), None
        mixed = gradients_apart(picture_model(), batch, sum_of_hinges, ways, processes)
    return apart | {"mixed precision": mixed}


def share_of(batch, processes):
    mine = processes.share(len(batch.image_ids))
    own = (tensor[mine] for tensor in (batch.images, batch.words, batch.lengths))
    return Batch(*own, batch.image_ids, targets=batch.targets)


def gradients_apart(model, batch, loss, ways, processes):
    """The largest difference in loss, gradient and buffers, by the largest number of the gradient."""
    reduction, masked, widths, chunk = ways
    objective = Objective(loss, reduction, masked, widths)
    found, before = [], {name: value.clone() for name, value in model.state_dict().items()}
    for who in (ALONE, processes):
        model.load_state_dict(before)
        model.zero_grad()
        stepper = plain_stepper(model, chunk, who)
        total = stepper.backward(share_of(batch, who), objective)
        buffers = [value.double() for value in model.buffers()]
        found.append([total.double(), *(w.grad for w in trained_parameters(model)), *buffers])
    largest = max(float(tensor.abs().max()) for tensor in found[0])
    return _apart(*found) / max(largest, 1e-3)


def _apart(expected, ours):
    return max(float((a - b).abs().max()) for a, b in zip(expected, ours, strict=True))


def _batch_norms(processes):
    """Layers of several classes and shapes, with and without weights, forward and backward."""
    torch.manual_seed(0)
    apart = {}
    for name, layer, shape in (
        ("1d", nn.BatchNorm1d(3), (7, 3)),
        ("2d", nn.BatchNorm2d(3), (7, 3, 4, 5)),
        ("no weights", nn.BatchNorm2d(3, affine=False), (7, 3, 2, 2)),
        ("no memory", nn.BatchNorm2d(3, track_running_stats=False), (7, 3, 2, 2)),
    ):
        layer, rows, pull = layer.double(), *(torch.randn(shape).double() * 3 + 1 for _ in "xy")
        before, found = {k: v.clone() for k, v in layer.state_dict().items()}, []
        for who in (ALONE, processes):
            layer.load_state_dict(before)
            layer.zero_grad()
            mine = who.share(len(rows))
            own = rows[mine].clone().requires_grad_()
            with who.as_one_batch():
                out = layer(own)
            out.backward(pull[mine])
            divided.GradientAllReduce(who, list(layer.parameters())).finish(torch.zeros(()))
            outcome = [who.gathered(out.detach(), len(rows)), who.gathered(own.grad, len(rows))]
            outcome += [p.grad for p in layer.parameters()]
            found.append(outcome + [b.double() for b in layer.buffers()])
        apart[f"batch norm {name}"] = _apart(*found)
    return apart


def _loops(processes):
    """Twenty steps with two losses: features in chunks, and pictures at random crops."""
    features, pictures = pairs_with_features(34), picture_pairs()
    steps = [Phase(1, 1e-3, sum_of_hinges), Phase(1, 1e-3, max_of_hinges)]
    runs = {
        "clipped features in chunks": (
            lambda: small_model(similarity="order_similarity"),
            features.batches,
            11,
            {
                "chunk_size": 3,
                "gradient_clip": 0.1,
                "mask_same_image": True,
                "reduction": "mean",
                "nested": (4,),
            },
        ),
        "pictures": (
            picture_model,
            partial(pictures.batches, crop="random_resized", word_dropout=0.3),
            6,
            {},
        ),
    }
    apart = {}
    for name, (make, batches, size, ways) in runs.items():
        found = []
        for who in (ALONE, processes):
            model, own = make().double(), batches(size, share=who.share)
            epochs = list(train(model, own, steps, processes=who, **ways))
            losses = torch.tensor([epoch.loss for epoch in epochs])
            found.append([losses, *(value.double() for value in model.state_dict().values())])
            num_steps = 2 * len(own)
        apart[f"{num_steps} steps, {name}"] = _apart(*found)
    return apart


def _evaluation(processes):
    """Vectors and recalls of a split, also of one with fewer pictures than processes."""
    apart = {}
    for name, model, pairs in (
        ("features", small_model().double(), pairs_with_features(13)),
        ("one picture", small_model().double(), pairs_with_features(1)),
        ("pictures", picture_model().double(), picture_pairs()),
    ):
        alone, shared = embed(model, pairs), embed(model, pairs, processes)
        apart[f"vectors, {name}"] = _apart(alone, shared)
        features = [with_features(model, pairs, who).images.rows for who in (ALONE, processes)]
        apart[f"features, {name}"] = _apart(*([tensor] for tensor in features))
        same = evaluate(model, pairs) == evaluate(model, pairs, processes=processes)
        apart[f"recalls, {name}"] = float(not same)
    return apart
