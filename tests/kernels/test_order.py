import pytest
import torch

from vsepp import kernels
from vsepp.equations.similarity import order_similarity

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or not kernels.gluon_available(torch.device("cuda")),
    reason="needs a GPU that Gluon compiles for",
)


@pytest.mark.parametrize(
    "shape", [(128, 128, 1024), (1, 1, 1), (300, 700, 100), (77, 1300, 1023), (1000, 5000, 256)]
)
def test_scores_and_gradients_are_those_of_the_equation(shape):
    """On the CPU, in double precision, `order_similarity` goes tile by tile."""
    num_images, num_captions, dim = shape
    torch.manual_seed(0)
    images, captions, pull = (
        torch.randn(*size, device="cuda")
        for size in ((num_images, dim), (num_captions, dim), (num_images, num_captions))
    )
    results = []
    for sides in ((images, captions, pull), (t.double().cpu() for t in (images, captions, pull))):
        i, c, p = sides
        i, c = i.clone().requires_grad_(), c.clone().requires_grad_()
        scores = order_similarity(i, c)
        results.append((scores, *torch.autograd.grad(scores, (i, c), p)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours.double().cpu(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(128, 128, 64), (1000, 5000, 64)])
def test_a_vector_that_is_not_a_number_scores_none(shape):
    """Zero is the best score there is."""
    num_images, num_captions, dim = shape
    images, captions = torch.ones(num_images, dim), torch.ones(num_captions, dim)
    captions[3, 5] = torch.nan
    scores = order_similarity(images.cuda(), captions.cuda())
    assert scores[:, 3].isnan().all()
    assert scores.isnan().sum() == num_images
