import torch

from vsepp.encoders.image import EPSILON, normalized


def test_rows_of_length_one_and_their_gradients(device):
    from vsepp.kernels.rows import unit_rows

    torch.manual_seed(0)
    vectors = torch.randn(6, 20, device=device)
    vectors[2] = 0  # stays a vector of zeros
    vectors[3] *= 1e-8  # shorter than epsilon: scaled, but not to length 1
    vectors.requires_grad_()
    pull = torch.randn(6, 20, device=device)
    ours, expected = unit_rows(vectors, EPSILON), normalized(vectors)
    torch.testing.assert_close(ours, expected)
    (gradient,) = torch.autograd.grad(ours, vectors, pull)
    (expected_gradient,) = torch.autograd.grad(expected, vectors, pull)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)
