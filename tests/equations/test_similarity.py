import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.memory import peak_extra_megabytes
from vsepp.equations.similarity import (
    SIMILARITIES,
    inner_product,
    negative_distance,
    order_similarity,
    order_similarity_rooted,
)


def vectors(rows, dim=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, dim, generator=generator, dtype=torch.float64)


# ---- by hand


def test_inner_product_by_hand():
    images, captions = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, -1.0]])
    assert inner_product(images, captions).tolist() == [[11.0, -2.0]]


def test_order_similarity_by_hand():
    images = torch.tensor([[1.0, 1.0], [0.0, 5.0]])
    captions = torch.tensor([[4.0, 5.0], [1.0, 0.0]])
    # excess of the captions over the images: (3, 4), (0, 0); (4, 0), (1, 0)
    assert order_similarity(images, captions).tolist() == [[-25.0, 0.0], [-16.0, -1.0]]
    assert order_similarity_rooted(images, captions).tolist() == [[-5.0, 0.0], [-4.0, -1.0]]


def test_negative_distance_by_hand():
    assert negative_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])).item() == -5


@pytest.mark.parametrize("distance", [1e-4, 1e-3, 1e-2, 0.1, 1.0])
def test_a_distance_keeps_its_digits_however_small_it_is(distance):
    """Between vectors of length 1, in single precision, with more rows than torch treats one by one."""
    images = torch.nn.functional.normalize(vectors(64, 256), dim=1).float()
    offsets = torch.nn.functional.normalize(vectors(64, 256, seed=1), dim=1)
    captions = (images + distance * offsets).float()
    found = -negative_distance(images, captions)
    assert found.dtype == torch.float32
    expected = torch.linalg.vector_norm(images.double() - captions.double(), dim=1)
    torch.testing.assert_close(found.diagonal().double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("rows", [3, 40])
def test_equal_vectors_have_no_gradient(rows):
    """The slope of a distance at zero has no direction; it must not be NaN, and not huge."""
    images = vectors(rows, 64).float().requires_grad_()
    captions = images.detach().clone().requires_grad_()
    assert negative_distance(images, captions).diagonal().abs().max() < 1e-6
    negative_distance(images, captions).diagonal().sum().backward()
    assert max(images.grad.abs().max(), captions.grad.abs().max()) < 1e-6


# ---- by the slow twin


FORMULAS = {
    "inner_product": lambda i, c: sum(a * b for a, b in zip(i, c, strict=True)),
    "order_similarity": lambda i, c: -sum(max(0, b - a) ** 2 for a, b in zip(i, c, strict=True)),
    "order_similarity_rooted": lambda i, c: (
        -math.hypot(*(max(0, b - a) for a, b in zip(i, c, strict=True)))
    ),
    "negative_distance": lambda i, c: -math.dist(i, c),
}


@pytest.mark.parametrize("name", SIMILARITIES)
def test_similarities_equal_the_double_loop(name):
    images, captions = vectors(6), vectors(9, seed=1)
    rows = [[FORMULAS[name](i, c) for c in captions.tolist()] for i in images.tolist()]
    expected = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(SIMILARITIES[name](images, captions), expected)


def slow_order(images, captions):
    excess = (captions[None] - images[:, None]).clamp(min=0)
    return -(excess**2).sum(dim=-1)


@pytest.mark.parametrize("tile", [1, 7, 40, 4_000_000])
def test_order_similarity_equals_the_formula_in_every_tiling(tile, monkeypatch):
    monkeypatch.setattr("vsepp.equations.similarity.ORDER_TILE", tile)
    images, captions = vectors(6).requires_grad_(), vectors(9, seed=1).requires_grad_()
    weights = vectors(6, 9, seed=2)
    (order_similarity(images, captions) * weights).sum().backward()
    ours = images.grad.clone(), captions.grad.clone()
    images.grad = captions.grad = None
    expected = slow_order(images, captions)
    (expected * weights).sum().backward()
    torch.testing.assert_close(order_similarity(images, captions), expected)
    torch.testing.assert_close(ours, (images.grad, captions.grad))


@pytest.mark.parametrize("similarity", SIMILARITIES.values())
def test_gradients(similarity):
    images, captions = vectors(4).requires_grad_(), vectors(3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(similarity, (images, captions))


# ---- by law


@pytest.mark.parametrize("similarity", SIMILARITIES.values())
@given(seed=st.integers(0, 1000))
def test_reordering_images_and_captions_reorders_scores(similarity, seed):
    images, captions = vectors(5, seed=seed), vectors(7, seed=seed + 1)
    generator = torch.Generator().manual_seed(seed)
    rows, columns = torch.randperm(5, generator=generator), torch.randperm(7, generator=generator)
    whole = similarity(images, captions)
    torch.testing.assert_close(similarity(images[rows], captions[columns]), whole[rows][:, columns])


@given(st.integers(0, 1000))
def test_inner_product_is_linear_and_distance_keeps_the_triangle(seed):
    a, b, c = (vectors(3, seed=seed + n) for n in range(3))
    torch.testing.assert_close(inner_product(a + b, c), inner_product(a, c) + inner_product(b, c))
    through = negative_distance(a, b)[:, :, None] + negative_distance(b, c)[None, :, :]
    assert (negative_distance(a, c)[:, None, :] >= through - 1e-9).all()


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
def test_order_similarity_is_never_positive_and_roots_to_the_same_order(rows, columns, seed):
    images, captions = vectors(rows, seed=seed), vectors(columns, seed=seed + 1)
    squared, rooted = order_similarity(images, captions), order_similarity_rooted(images, captions)
    assert (squared <= 0).all()
    torch.testing.assert_close(-(rooted**2), squared)


@given(st.integers(0, 1000))
def test_an_image_above_its_caption_violates_nothing_and_has_no_nan_gradient(seed):
    captions = vectors(4, seed=seed).requires_grad_()
    images = (captions.detach() + vectors(4, seed=seed + 1).abs()).requires_grad_()
    images.data[:, 0] = captions.data[:, 0]  # equal in one coordinate, where a root has no slope
    scores = order_similarity_rooted(images, captions).diagonal()
    scores.sum().backward()
    assert scores.tolist() == [0, 0, 0, 0]
    assert torch.equal(images.grad, torch.zeros_like(images))
    assert torch.equal(captions.grad, torch.zeros_like(captions))


@pytest.mark.parametrize("similarity", SIMILARITIES.values())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_in_is_dtype_out(similarity, dtype):
    assert similarity(vectors(2).to(dtype), vectors(3).to(dtype)).dtype is dtype


@pytest.mark.slow
@pytest.mark.parametrize("name", ["order_similarity", "order_similarity_rooted"])
def test_order_similarity_never_holds_the_cube(name):
    """M = N = D = 1,024: the cube would take 4 GB."""
    extra = peak_extra_megabytes(
        f"""
        import torch
        from vsepp.equations.similarity import {name} as similarity
        torch.set_num_threads(1)
        images = torch.randn(1024, 1024).requires_grad_()
        captions = torch.randn(1024, 1024).requires_grad_()
        similarity(images[:8], captions[:8]).sum().backward()  # libraries are loaded, gradients exist
        """,
        "similarity(images, captions).sum().backward()",
    )
    assert extra < 100
