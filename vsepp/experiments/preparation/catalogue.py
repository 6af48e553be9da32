"""The recipes, what each needs, and which of them a collection is ready for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vsepp.data.captioned import CaptionedImages, Problems, have_features
from vsepp.data.collections import Track, checked, no_progress, open_data, summarize_left_out
from vsepp.errors import WrongRequest
from vsepp.experiments.recipe import COLLECTIONS, MEASURED_ON, ROW, Recipe, all_recipes

HOW_TO_GET = {
    "restval": "COCO's: in Karpathy's dataset_coco.json or coco_restval_ids.npy; where it is part of "
    "train: --set \"data.train=['train']\"",
    "train": "give images the split train",
    "val": "give some images the split val",
}


def list_recipes() -> list[dict[str, Any]]:
    """All recipes, ours first: what they need and, for rows of the paper, the numbers as printed."""
    return [_row(recipe) for recipe in all_recipes()]


def _row(recipe: Recipe) -> dict[str, Any]:
    return {
        "recipe": recipe.name,
        "row": recipe.row or None,
        "name": recipe.title or _model(recipe),
        "model": _model(recipe),
        "needs": _needs(recipe),
        "protocol": recipe.protocol,
        "expect": asdict(recipe.expect) if recipe.expect else None,
    }


def _needs(recipe: Recipe) -> dict[str, Any]:
    """Collection and splits, images or features, and the row whose model comes first."""
    trained = Recipe.of_row(recipe.model_of) if recipe.model_of else recipe
    needs_images = trained.crops_at_random or trained.model.finetune
    return {
        "collection": recipe.data.collection or None,
        "splits": [*trained.data.train, trained.data.validate, "test"],
        "images": "pictures" if needs_images else "pictures or features",
        "backbone": trained.model.backbone,
        "model": recipe.start_from or recipe.model_of or None,
    }


def _model(recipe: Recipe) -> str:
    if recipe.method == "correlation":
        return f"{recipe.model.backbone}, canonical correlation (Sec. 2.1)"
    losses = dict.fromkeys(phase.loss for phase in recipe.phases if phase.epochs)
    tuned = " fine-tuned" if recipe.start_from and recipe.model.finetune else ""
    return f"{recipe.model.backbone}{tuned}, {' then '.join(losses)}"


@dataclass(frozen=True)
class Description:
    """What is in a collection, and what it lacks for which recipe."""

    name: str
    splits: dict[str, tuple[int, int]]  # number of images and captions
    left_out: Sequence[str]
    within: Mapping[str, str]  # splits that are part of another
    missing: dict[str, list[str]]  # by recipe; empty where it is ready

    def as_dict(self) -> dict[str, Any]:
        splits = {n: {"images": i, "captions": c} for n, (i, c) in self.splits.items()}
        return {
            "name": self.name,
            "splits": splits,
            "left_out": list(self.left_out),
            "within": dict(self.within),
            "missing": self.missing,
        }

    def by_need(self) -> dict[str, list[str]]:
        """Groups of recipes that lack the same, the ready ones ("") first."""
        groups: dict[str, list[str]] = {}
        for recipe, needs in sorted(self.missing.items(), key=lambda entry: len(entry[1])):
            groups.setdefault(" and ".join(needs), []).append(recipe)
        return {need: _summarize(recipes) for need, recipes in groups.items()}


def _summarize(recipes: Sequence[str]) -> list[str]:
    """Recipes for your own images by name; rows of the paper and series by their number."""
    series = {name: _series(name) for name in recipes}
    own = [name for name in recipes if not series[name]]
    counts = Counter(of for of in series.values() if of)
    first = {of: next(name for name in recipes if series[name] == of) for of in counts}
    return own + [first[of] if n == 1 else f"{of} ({n})" for of, n in counts.items()]


def _series(recipe: str) -> str:
    if ROW.fullmatch(recipe):
        return f"rows {recipe.partition('.')[0]}.* of the paper"
    return next((f"{of}-*" for of in ("f8k", "demo") if recipe.startswith(f"{of}-")), "")


def describe(where: str, track: Track = no_progress) -> Description:
    """Check all of a collection, whatever is wrong with it."""
    data = checked(open_data(where, "skip"), Problems("skip"), track=track)
    if not data.items:
        raise WrongRequest(
            f"{data.name}: nothing in it can be used. {summarize_left_out(data.left_out)}"
        )
    needs = {recipe.name: missing(recipe, data) for recipe in all_recipes()}
    return Description(data.name, data.splits, data.left_out, data.within, needs)


def missing(recipe: Recipe, data: CaptionedImages) -> list[str]:
    """What a collection lacks for a recipe; empty where it can be reproduced at once."""
    other = _collection(recipe, data)
    if other:
        return other
    found = _enough_to_test(recipe, data)
    trained = Recipe.load(recipe.model_of) if recipe.model_of else recipe
    for split in (*trained.data.train, trained.data.validate):
        if split not in data.splits and not data.comes_with(split, trained.data.train):
            found.append(f"a split {split} ({HOW_TO_GET.get(split, 'name another with --set')})")
    return found + _images_or_features(trained, data)


def _collection(recipe: Recipe, data: CaptionedImages) -> list[str]:
    """Numbers of one collection say nothing about another; features seldom say of which they are."""
    wanted = recipe.data.collection or ("f8k" if recipe.name.startswith("f8k-") else "")
    is_unknown = not data.collection and have_features(data.items)
    return [] if wanted in ("", data.collection) or is_unknown else [COLLECTIONS[wanted]]


def _enough_to_test(recipe: Recipe, data: CaptionedImages) -> list[str]:
    wanted = 0 if recipe.protocol == "full" else MEASURED_ON[recipe.protocol]
    found = data.splits.get("test", (0, 0))[0]
    return [] if found >= wanted else [f"{wanted:,} test images for {recipe.protocol}"]


def _images_or_features(recipe: Recipe, data: CaptionedImages) -> list[str]:
    wanted = recipe.model.backbone
    if not have_features(data.items):
        how = "make them: vsepp precompute DATA --backbone NAME --into DIR"
        return [f"features ({how})"] if wanted == "features" else []
    if wanted == "features":
        return []
    if recipe.model.finetune or recipe.crops_at_random:
        return ["images (it trains on pixels, and these are features)"]
    made_by = (data.origin or {}).get("backbone", wanted)
    how = f"make them: vsepp precompute IMAGES --backbone {wanted} --into DIR"
    return [] if made_by == wanted else [f"features of {wanted} ({how}; these are {made_by}'s)"]
