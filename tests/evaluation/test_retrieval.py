import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.memory import peak_extra_megabytes
from vsepp.equations.ranking import Recall, ranks
from vsepp.equations.similarity import SIMILARITIES, inner_product
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import Retrieval, both_ranks, evaluate
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot


@st.composite
def embeddings(draw):
    """Vectors of small whole numbers, so that scores are exact and ties are many."""
    captions_of = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    owners = torch.repeat_interleave(torch.arange(len(captions_of)), torch.tensor(captions_of))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    images = torch.randint(-2, 3, (len(captions_of), 3), generator=generator).double()
    captions = torch.randint(-2, 3, (len(owners), 3), generator=generator).double()
    return images, captions, owners


@given(embeddings(), st.integers(1, 5), st.sampled_from(list(SIMILARITIES.values())))
def test_tile_by_tile_equals_the_whole_matrix(vectors, tile, similarity):
    images, captions, owners = vectors
    scores = similarity(images, captions)
    relevant = owners[None, :] == torch.arange(len(images))[:, None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vsepp.evaluation.retrieval.TILE", tile)
        image_ranks, caption_ranks = both_ranks(images, captions, owners, similarity)
    assert torch.equal(image_ranks, ranks(scores, relevant))
    assert torch.equal(caption_ranks, ranks(scores.T, relevant.T))


def test_by_hand():
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    captions = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])
    result = Retrieval.from_vectors(images, captions, torch.tensor([0, 0, 1]))
    assert result.captions == Recall(100, 100, 100, 1, 1.0)
    assert result.images.r1 == pytest.approx(200 / 3)  # the second caption prefers the other image
    assert result.images.mean_rank == pytest.approx(4 / 3)
    assert result.rsum == pytest.approx(300 + 200 + 200 / 3)
    assert (result.num_images, result.num_captions) == (2, 3)


def test_the_order_of_captions_does_not_matter():
    generator = torch.Generator().manual_seed(0)
    images, captions = (torch.randn(n, 8, generator=generator) for n in (20, 60))
    owners = torch.arange(20).repeat(3)
    shuffle = torch.randperm(60, generator=generator)
    first = Retrieval.from_vectors(images, captions, owners)
    second = Retrieval.from_vectors(images, captions[shuffle], owners[shuffle])
    assert first == second


def test_numpy_and_lists_of_owners_are_fine():
    images = np.eye(3, dtype=np.float32)
    result = Retrieval.from_vectors(images, images, [0, 1, 2])
    assert result.rsum == 600


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_every_precision_is_counted_right(dtype):
    generator = torch.Generator().manual_seed(0)
    images, captions = (torch.randint(-9, 9, (n, 4), generator=generator) for n in (2500, 5000))
    owners = torch.arange(2500).repeat_interleave(2)
    expected = Retrieval.from_vectors(images.double(), captions.double(), owners)
    assert Retrieval.from_vectors(images.to(dtype), captions.to(dtype), owners) == expected


@pytest.mark.parametrize("value", [0.3, float("nan"), 0.0])
def test_a_constant_or_broken_model_ranks_last(value):
    images, captions = torch.full((2500, 4), value), torch.full((5000, 4), value)
    result = Retrieval.from_vectors(images, captions, torch.arange(2500).repeat_interleave(2))
    assert result.rsum == 0
    assert result.images.mean_rank == 2500
    assert result.captions.mean_rank == 4999


@pytest.mark.parametrize("num_images", [1001, 2500])
def test_a_collapsed_model_never_ranks_first(num_images):
    """Equal vectors in edge tiles of other shapes: rounding must not turn ties into wins."""
    vector = torch.randn(1024, generator=torch.Generator().manual_seed(0))
    vector /= vector.norm()
    images, captions = vector.repeat(num_images, 1), vector.repeat(2 * num_images, 1)
    owners = torch.arange(num_images).repeat_interleave(2)
    assert Retrieval.from_vectors(images, captions, owners).rsum < 1


def test_vectors_that_still_learn_are_fine():
    images = torch.eye(3, requires_grad=True)
    assert Retrieval.from_vectors(images, images, [0, 1, 2]).rsum == 600


def test_folds_are_consecutive_thousands_and_averaged():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(5000, 16, generator=generator)
    captions = images.repeat_interleave(2, 0) + torch.randn(10_000, 16, generator=generator)
    owners = torch.arange(5000).repeat_interleave(2)
    folds = [
        Retrieval.from_vectors(
            images[n : n + 1000],
            captions[2 * n : 2 * n + 2000],
            torch.arange(1000).repeat_interleave(2),
        )
        for n in range(0, 5000, 1000)
    ]
    whole = Retrieval.from_vectors(images, captions, owners, protocol="5x1k")
    assert whole.captions == Recall.mean([fold.captions for fold in folds])
    assert whole.images == Recall.mean([fold.images for fold in folds])
    assert (whole.num_images, whole.num_captions) == (5000, 10_000)
    first = Retrieval.from_vectors(images, captions, owners, protocol="1k")
    assert (first.captions, first.images) == (folds[0].captions, folds[0].images)
    five = Retrieval.from_vectors(images, captions, owners, protocol="5k")
    full = Retrieval.from_vectors(images, captions, owners)
    assert (five.captions, five.images) == (full.captions, full.images)
    assert five.rsum < whole.rsum  # more rivals, lower recall


def release(images, captions):
    """What the authors' release computes: 5N rows, float64, a sort and a search per query."""
    images, captions = images.double().numpy().repeat(5, axis=0), captions.double().numpy()
    first = np.zeros(len(images) // 5)
    for index in range(len(first)):
        order = np.argsort(images[5 * index] @ captions.T)[::-1]
        first[index] = min(np.where(order == 5 * index + k)[0][0] for k in range(5))
    second = np.zeros(len(captions))
    for index in range(len(captions)):
        order = np.argsort(captions[index] @ images[::5].T)[::-1]
        second[index] = np.where(order == index // 5)[0][0]
    return [
        (
            *(100 * (found < k).mean() for k in (1, 5, 10)),
            np.floor(np.median(found)) + 1,
            found.mean() + 1,
        )
        for found in (first, second)
    ]


def test_figures_equal_the_releases():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(300, 24, generator=generator)
    captions = images.repeat_interleave(5, 0) + 2 * torch.randn(1500, 24, generator=generator)
    result = Retrieval.from_vectors(images, captions, torch.arange(300).repeat_interleave(5))
    for ours, theirs in zip(
        (result.captions, result.images), release(images, captions), strict=True
    ):
        assert tuple(vars(ours).values()) == pytest.approx(theirs)


def test_the_json_object():
    result = Retrieval.from_vectors(np.eye(3), np.eye(3), [0, 1, 2]).as_dict()
    assert list(result) == ["captions", "images", "rsum", "protocol", "num_images", "num_captions"]
    assert list(result["captions"]) == ["r1", "r5", "r10", "median_rank", "mean_rank"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), np.ones((3, 2)), [0, 1, 2]), "of one dimension"),
        ((np.eye(3), np.eye(3), [0, 1]), "image_of_caption has 2"),
        ((np.eye(3), np.eye(3), [0, 1, 1]), "Every image needs a caption"),
        ((np.eye(3), np.eye(3), [0, 1, 5]), "Every image needs a caption"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(WrongRequest, match=message):
        Retrieval.from_vectors(*arguments)


def test_a_protocol_needs_its_images():
    with pytest.raises(WrongRequest, match=r"5x1k needs 5,000 images, and there are 3"):
        Retrieval.from_vectors(np.eye(3), np.eye(3), [0, 1, 2], protocol="5x1k")
    with pytest.raises(WrongRequest, match="full, 1k, 5x1k, 5k"):
        Retrieval.from_vectors(np.eye(3), np.eye(3), [0, 1, 2], protocol="2k")


@pytest.mark.slow
def test_every_image_is_embedded_once(world, snapshot_folder, monkeypatch):
    snapshot = Snapshot.load(snapshot_folder)
    pairs = Pairs(world.split("test"), snapshot.vocabulary, snapshot.architecture.view)
    embedded = []
    embed_images = snapshot.model.embed_images
    monkeypatch.setattr(
        snapshot.model,
        "embed_images",
        lambda images: embedded.append(len(images)) or embed_images(images),
    )
    result = evaluate(snapshot.model, pairs)
    assert sum(embedded) == len(pairs.items) == result.num_images
    assert result.num_captions == 5 * result.num_images


@pytest.mark.slow
def test_evaluation_leaves_the_model_in_its_mode(world, snapshot_folder):
    """The release stayed in evaluation mode after its first validation."""
    snapshot = Snapshot.load(snapshot_folder)
    pairs = Pairs(world.split("test"), snapshot.vocabulary, snapshot.architecture.view)
    for mode in (True, False):
        snapshot.model.train(mode)
        evaluate(snapshot.model, pairs)
        assert snapshot.model.training is mode


@pytest.mark.slow
def test_five_thousand_images_need_little_memory():
    extra = peak_extra_megabytes(
        """
        import torch
        from vsepp.evaluation.retrieval import Retrieval
        images, captions = torch.randn(5000, 64), torch.randn(25000, 64)
        owners = torch.arange(5000).repeat_interleave(5)
        Retrieval.from_vectors(images[:10], captions[:50], owners[:50])
        """,
        "Retrieval.from_vectors(images, captions, owners)",
    )
    assert extra < 600


def test_inner_product_is_the_default():
    generator = torch.Generator().manual_seed(0)
    images, captions = (torch.randn(10, 4, generator=generator) for _ in range(2))
    owners = torch.arange(10)
    by_default = Retrieval.from_vectors(images, captions, owners)
    assert by_default == Retrieval.from_vectors(images, captions, owners, inner_product)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "similarity", [SIMILARITIES["inner_product"], SIMILARITIES["order_similarity"]]
)
def test_a_gpu_counts_the_same_ranks(similarity):
    """Whole numbers again: scores are exact on both sides, and full of ties. More than one tile."""
    generator = torch.Generator().manual_seed(0)
    images, captions = (
        torch.randint(-2, 3, (n, 16), generator=generator).float() for n in (2600, 5200)
    )
    owners = torch.arange(2600).repeat_interleave(2)
    here = both_ranks(images, captions, owners, similarity)
    there = both_ranks(images.cuda(), captions.cuda(), owners.cuda(), similarity)
    assert all(torch.equal(a, b.cpu()) for a, b in zip(here, there, strict=True))
