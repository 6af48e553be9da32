"""A model and held-out pairs -> R@K."""
