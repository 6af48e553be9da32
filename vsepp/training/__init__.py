"""Batches and a model -> a better model."""
