"""The shipped recipes, one TOML file each. `keys` reads tables as dataclasses, changes single keys, and has the rules
between them; `start` takes the architecture of the snapshot that a recipe starts from. The keys themselves, with their
defaults, are in recipe.py above."""
