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
    slope = getattr(hinges, name)(scores, total, 0.25, 0.5, image_ids)
    negatives = image_ids[:, None] != image_ids[None, :] if masked else None
    leaf = scores.clone().requires_grad_()
    per_pair = getattr(losses, name)(leaf, margin=0.25, negatives=negatives)
    (0.5 * per_pair.sum()).backward()
    assert total.item() == pytest.approx(5 + per_pair.sum().item(), rel=1e-5)
    torch.testing.assert_close(slope, leaf.grad)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: too slow to interpret")
@pytest.mark.parametrize("name", ["sum_of_hinges", "max_of_hinges"])
@pytest.mark.parametrize("size", [128, 1000])
def test_batches_of_real_size(device, name, size):
    test_losses_and_gradients_are_those_of_the_equations(device, name, size, masked=True)
