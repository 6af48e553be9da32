"""Batches -> the joint space."""
