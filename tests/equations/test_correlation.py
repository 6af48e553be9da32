import pytest
import torch

from vsepp.equations.correlation import canonical_maps


def covariances(x, y):
    x, y = x - x.mean(0), y - y.mean(0)
    return x.T @ x / len(x), y.T @ y / len(y), x.T @ y / len(x)


def correlated(seed=0, num=4000):
    """Two sides that share three hidden causes, of which each sees some and noise besides."""
    generator = torch.Generator().manual_seed(seed)
    causes = torch.randn(num, 3, generator=generator, dtype=torch.float64)

    def side(width):
        mixing = torch.randn(3, width, generator=generator, dtype=torch.float64)
        noise = torch.randn(num, width, generator=generator, dtype=torch.float64)
        return causes @ mixing + noise

    return side(6), side(8)


def test_one_dimension_by_hand():
    x = torch.tensor([[1.0], [2.0], [3.0], [4.0]], dtype=torch.float64)
    y = torch.tensor([[2.0], [1.0], [4.0], [3.0]], dtype=torch.float64)
    _, _, strength = canonical_maps(*covariances(x, y), dim=1, ridge=0)
    assert strength.item() == pytest.approx(0.6)  # Pearson's correlation of the two


def test_what_is_mapped_correlates_as_said_and_nothing_else_does():
    x, y = correlated()
    x_map, y_map, strength = canonical_maps(*covariances(x, y), dim=6, ridge=0)
    u, v = (x - x.mean(0)) @ x_map, (y - y.mean(0)) @ y_map
    across = u.T @ v / len(u)
    assert torch.allclose(u.T @ u / len(u), torch.eye(6, dtype=torch.float64), atol=1e-8)
    assert torch.allclose(across, torch.diag(strength), atol=1e-8)
    assert (strength[:3] > 0.5).all()
    assert (strength[3:] < 0.1).all()


def test_by_the_slow_twin():
    """The eigenvalues of Cxx^-1 Cxy Cyy^-1 Cyx are the squared correlations."""
    x, y = correlated(1)
    xx, yy, xy = covariances(x, y)
    _, _, strength = canonical_maps(xx, yy, xy, dim=6, ridge=0)
    product = torch.linalg.inv(xx) @ xy @ torch.linalg.inv(yy) @ xy.T
    squares = torch.linalg.eigvals(product).real.sort(descending=True).values
    assert torch.allclose(strength**2, squares, atol=1e-8)


def test_correlations_do_not_change_when_a_side_is_turned_and_stretched():
    x, y = correlated(2)
    turned = x @ torch.randn(6, 6, dtype=torch.float64) + 5
    first = canonical_maps(*covariances(x, y), dim=6, ridge=0)[2]
    second = canonical_maps(*covariances(turned, y), dim=6, ridge=0)[2]
    assert torch.allclose(first, second, atol=1e-8)


def test_the_ridge_lets_directions_be_alike():
    x, y = correlated(3)
    x = torch.cat([x, x[:, :2]], dim=1)  # a singular covariance
    strength = canonical_maps(*covariances(x, y), dim=6, ridge=0.1)[2]
    assert torch.isfinite(strength).all()
    assert strength.max() < 1


def test_everything_stays_on_the_device_of_the_covariances():
    """`meta` stands for any device that is not the CPU."""
    shapes = (6, 6), (8, 8), (6, 8)
    maps = canonical_maps(*(torch.empty(shape, device="meta") for shape in shapes), dim=3)
    assert [(part.device.type, tuple(part.shape)) for part in maps] == [
        ("meta", (6, 3)),
        ("meta", (8, 3)),
        ("meta", (3,)),
    ]
