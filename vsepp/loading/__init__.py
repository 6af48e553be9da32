"""Captioned images -> batches of tensors: what a collection becomes once torch is there."""
