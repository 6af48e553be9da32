"""Recipes, and the one place where training, evaluation and snapshots are wired together.

A recipe (recipe.py) holds every setting of a run; `recipes` has the shipped ones and reads them. run.py trains it from
top to bottom: `preparation` is what some runs need before their first step, `progress` what happens after every epoch.
closed_form.py solves canonical correlation instead. reproduce.py runs rows of the paper; `comparisons` sets them beside
the printed numbers, and models beside each other. measure.py measures snapshots; it averages, shortens and extends them, too.
All share stored_features.py (features instead of images), provenance.py (fingerprints of runs, and where results come
from) and metrics.py (what a run wrote down).
"""
