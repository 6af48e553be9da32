import pytest
import torch

from vsepp.equations import losses


@pytest.mark.parametrize("name", ["sum_of_hinges", "max_of_hinges"])
@pytest.mark.parametrize("size", [1, 2, 7, 16])
@pytest.mark.parametrize("masked", [True, False])
def test_losses_and_gradients_are_those_of_the_equations(device, name, size, masked):
    from vsepp.kernels import hinges

    torch.manual_seed(size)
    scores = 0.3 * torch.randn(size, size, device=device)
    image_ids = torch.randint(0, 3, (size,), device=device) if masked else None
    total = torch.tensor(5.0, device=device)
    slope = getattr(hinges, name)(0.25, scores, total, 0.5, image_ids)
    negatives = image_ids[:, None] != image_ids[None, :] if masked else None
    leaf = scores.clone().requires_grad_()
    per_pair = getattr(losses, name)(leaf, margin=0.25, negatives=negatives)
    (0.5 * per_pair.sum()).backward()
    assert total.item() == pytest.approx(5 + per_pair.sum().item(), rel=1e-5)
    torch.testing.assert_close(slope, leaf.grad)


@pytest.mark.parametrize("name", ["sum_of_hinges", "max_of_hinges"])
@pytest.mark.parametrize("cell", [(1, 4), (4, 1), (3, 3)])
def test_a_score_that_is_not_a_number_makes_the_loss_none(device, name, cell):
    from vsepp.kernels import hinges

    torch.manual_seed(0)
    scores = 0.3 * torch.randn(7, 7, device=device)
    scores[cell] = torch.nan
    total = torch.zeros((), device=device)
    slope = getattr(hinges, name)(0.25, scores, total, 1.0)
    assert total.isnan() and getattr(losses, name)(scores, margin=0.25).sum().isnan()
    assert slope.shape == scores.shape


def test_a_score_that_does_not_count_may_be_anything(device):
    from vsepp.kernels import hinges

    scores = torch.tensor([[1.0, torch.nan], [torch.nan, 1.0]], device=device)
    total = torch.zeros((), device=device)
    hinges.max_of_hinges(0.25, scores, total, 1.0, torch.zeros(2, dtype=torch.int64, device=device))
    assert total.item() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: too slow to interpret")
@pytest.mark.parametrize("name", ["sum_of_hinges", "max_of_hinges"])
@pytest.mark.parametrize("size", [128, 1000])
def test_batches_of_real_size(device, name, size):
    test_losses_and_gradients_are_those_of_the_equations(device, name, size, masked=True)
