"""Recipes, and the one place where learning is wired together."""
