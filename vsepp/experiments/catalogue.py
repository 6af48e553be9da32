"""All recipes at a glance."""

from dataclasses import asdict
from typing import Any

from vsepp.experiments.recipe import Recipe, all_recipes


def paper_rows() -> list[dict[str, Any]]:
    """The rows of the paper: number, name, what they need, protocol, and the numbers as printed."""
    return [_row(recipe) for recipe in all_recipes() if recipe.row]


def described() -> list[dict[str, Any]]:
    """All recipes, our own first: what they need, and, for rows of the paper, the numbers as printed."""
    return [_row(recipe) for recipe in all_recipes()]


def text() -> str:
    lines = ["Recipes of our own: vsepp train NAME --data PATH --into DIR"]
    recipes = all_recipes()
    lines += [f"  {recipe.name:<22} {_model(recipe)}" for recipe in recipes if not recipe.row]
    lines.append("Rows of the paper: vsepp reproduce ROW --data PATH")
    for recipe in recipes:
        if recipe.row:
            after = recipe.start_from or recipe.model_of
            first = f", from {after}" if after else ""
            lines.append(f"  {recipe.row:<6}{recipe.title:<28}{recipe.data.collection}{first}")
    return "\n".join(lines)


def _row(recipe: Recipe) -> dict[str, Any]:
    return {
        "recipe": recipe.name,
        "row": recipe.row or None,
        "name": recipe.title or _model(recipe),
        "needs": _needs(recipe),
        "protocol": recipe.protocol,
        "expect": asdict(recipe.expect) if recipe.expect else None,
    }


def _needs(recipe: Recipe) -> dict[str, Any]:
    """Which collection and splits, pictures or features of them, and which row's model before."""
    trained = Recipe.of_row(recipe.model_of) if recipe.model_of else recipe
    splits = [*trained.data.train, trained.data.validate, "test"]
    sees_all = trained.crops_at_random or trained.model.finetune
    return {
        "collection": recipe.data.collection or None,
        "splits": splits,
        "images": "pictures" if sees_all else "pictures or features",
        "backbone": trained.model.backbone,
        "model": recipe.start_from or recipe.model_of or None,
    }


def _model(recipe: Recipe) -> str:
    if recipe.method == "correlation":
        return f"{recipe.model.backbone}, canonical correlation (Sec. 2.1)"
    losses = dict.fromkeys(phase.loss for phase in recipe.phases if phase.epochs)
    tuned = " fine-tuned" if recipe.start_from and recipe.model.finetune else ""
    return f"{recipe.model.backbone}{tuned}, {' then '.join(losses)}"
