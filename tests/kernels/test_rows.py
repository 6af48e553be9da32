import torch

from vsepp.equations.similarity import EPSILON, normalize


def test_rows_of_length_one_and_their_gradients(device):
    from vsepp.kernels.rows import unit_rows

    torch.manual_seed(0)
    vectors = torch.randn(6, 20, device=device)
    vectors[2] = 0  # stays a vector of zeros
    vectors[3] *= 1e-8  # shorter than epsilon: scaled, but not to length 1
    vectors.requires_grad_()
    pull = torch.randn(6, 20, device=device)
    ours, expected = unit_rows(vectors, EPSILON), normalize(vectors)
    torch.testing.assert_close(ours, expected)
    (gradient,) = torch.autograd.grad(ours, vectors, pull)
    (expected_gradient,) = torch.autograd.grad(expected, vectors, pull)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


def test_a_row_with_something_that_is_not_a_number_has_no_number(device):
    from vsepp.kernels.rows import unit_rows

    vectors = torch.ones(2, 20, device=device)
    vectors[0, 3] = torch.nan
    vectors.requires_grad_()
    ours = unit_rows(vectors, EPSILON)
    assert torch.equal(ours.isnan(), normalize(vectors).isnan())
    assert ours[0].isnan().all() and not ours[1].isnan().any()
    (gradient,) = torch.autograd.grad(ours, vectors, torch.ones_like(ours))
    assert gradient[0].isnan().all()
