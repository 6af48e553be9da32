"""Recipes, and the one place where training, evaluation and snapshots are wired together.

A recipe (recipe.py) is read from TOML by keys.py; start.py takes the architecture of the snapshot it starts from. run.py
trains it from top to bottom: pretrained.py, stored_features.py and process_checks.py prepare what only some runs need,
health.py stops a run that has diverged, run_folder.py and state.py write its folder, watcher.py is what shows it.
closed_form.py solves canonical correlation instead. reproduce.py runs rows of the paper and comparison.py sets them beside
the printed numbers; provenance.py fingerprints runs and records where results come from. catalogue.py lists recipes.
Other commands: demo.py, precompute.py, measure.py, benchmark.py (evaluate, compare, audit), figures.py with metrics.py.
"""
