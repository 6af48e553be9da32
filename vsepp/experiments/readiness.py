"""Which recipes a collection is ready for, and what the others are missing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vsepp.data.captioned import CaptionedImages
from vsepp.data.collections import open_data
from vsepp.data.features import FeatureRow
from vsepp.errors import WrongRequest
from vsepp.experiments.opening import look_at, summary
from vsepp.experiments.recipe import ROW, Recipe, all_recipes
from vsepp.experiments.tables import COLLECTIONS, MEASURED_ON

HOW_TO_GET = {
    "restval": "COCO's: Karpathy's dataset_coco.json or coco_restval_ids.npy has it; where it is part of "
    "train: --set \"data.train=['train']\"",
    "train": "give pictures the split train",
    "val": "give some pictures the split val",
}


@dataclass(frozen=True)
class Description:
    """What a path was taken for, what is in it, and what it lacks."""

    name: str
    splits: dict[str, tuple[int, int]]  # pictures and captions
    left_out: Sequence[str]
    within: Mapping[str, str]  # splits that are part of another
    missing: dict[str, list[str]]  # by recipe; nothing where it is ready

    def as_dict(self) -> dict[str, Any]:
        splits = {n: {"images": i, "captions": c} for n, (i, c) in self.splits.items()}
        return {
            "name": self.name,
            "splits": splits,
            "left_out": list(self.left_out),
            "within": dict(self.within),
            "missing": self.missing,
        }

    def text(self) -> str:
        lines = [f"Taken for {self.name}."]
        lines += [f"  {n:<8}{i:>9,} pictures{c:>10,} captions" for n, (i, c) in self.splits.items()]
        lines += [f"  {part} is part of {whole}" for part, whole in self.within.items()]
        if self.left_out:
            lines.append(summary(self.left_out))
        if "test" not in self.splits:
            lines.append("No test split: name another one to evaluate on (--split).")
        for needs, recipes in self._by_need().items():
            said = f"Needs {needs}" if needs else "Ready to train"
            lines.append(f"{said}: {', '.join(_grouped(recipes))}")
        return "\n".join(lines)

    def _by_need(self) -> dict[str, list[str]]:
        """Recipes that lack the same, the ready ones first."""
        groups: dict[str, list[str]] = {}
        for recipe, needs in sorted(self.missing.items(), key=lambda entry: len(entry[1])):
            groups.setdefault(" and ".join(needs), []).append(recipe)
        return groups


def _grouped(recipes: Sequence[str]) -> list[str]:
    """Recipes for one's own pictures first and by name; rows of the paper and series by their number."""
    series = {name: _series(name) for name in recipes}
    own = [name for name in recipes if not series[name]]
    counts = Counter(of for of in series.values() if of)
    few = {of: next(name for name in recipes if series[name] == of) for of in counts}
    return own + [few[of] if n == 1 else f"{of} ({n})" for of, n in counts.items()]


def _series(recipe: str) -> str:
    if ROW.fullmatch(recipe):
        return f"rows {recipe.partition('.')[0]}.* of the paper"
    return next((f"{of}-*" for of in ("f8k", "demo") if recipe.startswith(f"{of}-")), "")


def describe(where: str) -> Description:
    """Look at all of a collection, whatever is wrong with it."""
    data = look_at(open_data(where, "skip"), "skip")
    if not data.items:
        raise WrongRequest(f"{data.name}: nothing in it can be used. {summary(data.left_out)}")
    needs = {recipe.name: missing(recipe, data) for recipe in all_recipes()}
    return Description(data.name, data.splits, data.left_out, data.within, needs)


def missing(recipe: Recipe, data: CaptionedImages) -> list[str]:
    """What stands between a recipe and this collection; nothing where it can be reproduced at once."""
    other = _collection(recipe, data)
    if other:
        return other
    found = _enough_to_test(recipe, data)
    trained = Recipe.load(recipe.model_of) if recipe.model_of else recipe
    for split in (*trained.data.train, trained.data.validate):
        if split not in data.splits and not data.comes_with(split, trained.data.train):
            found.append(f"a split {split} ({HOW_TO_GET.get(split, 'name another by --set')})")
    return found + _what_to_look_at(trained, data)


def _collection(recipe: Recipe, data: CaptionedImages) -> list[str]:
    """Numbers of one collection say nothing about another; features seldom say of which they are."""
    wanted = recipe.data.collection or ("f8k" if recipe.name.startswith("f8k-") else "")
    is_unknown = not data.collection and isinstance(data.items[0].path, FeatureRow)
    return [] if wanted in ("", data.collection) or is_unknown else [COLLECTIONS[wanted]]


def _enough_to_test(recipe: Recipe, data: CaptionedImages) -> list[str]:
    wanted = 0 if recipe.protocol == "full" else MEASURED_ON[recipe.protocol]
    there = data.splits.get("test", (0, 0))[0]
    return [] if there >= wanted else [f"{wanted:,} test pictures for {recipe.protocol}"]


def _what_to_look_at(recipe: Recipe, data: CaptionedImages) -> list[str]:
    wanted = recipe.model.backbone
    if not isinstance(data.items[0].path, FeatureRow):
        how = "vsepp precompute DATA --backbone NAME --into DIR makes them"
        return [f"features ({how})"] if wanted == "features" else []
    if wanted == "features":
        return []
    if recipe.model.finetune or recipe.crops_at_random:
        return ["pictures (it trains on the pictures themselves, and here are features)"]
    made_by = (data.origin or {}).get("backbone", wanted)
    how = f"vsepp precompute PICTURES --backbone {wanted} --into DIR makes them"
    return [] if made_by == wanted else [f"features of {wanted} ({how}; here are {made_by}'s)"]
