"""What a recipe may not ask for, beyond what types can say, and what to set instead."""

from typing import TYPE_CHECKING

from vsepp.errors import WrongRequest

if TYPE_CHECKING:
    from vsepp.experiments.recipe import Recipe

Rule = tuple[bool, str]  # whether it is kept, and the complaint where it is not


def check(recipe: "Recipe") -> None:
    """Complain about the first rule that is broken."""
    for is_right, complaint in (
        *_rules_of_learning(recipe),
        *_rules_of_data(recipe),
        *_rules_of_models(recipe),
    ):
        if not is_right:
            raise WrongRequest(complaint)


def _rules_of_learning(recipe: "Recipe") -> tuple[Rule, ...]:
    return (
        (recipe.batch_size >= 2, "batch_size takes at least 2: a pair alone has no negatives."),
        (recipe.chunk_size >= 0, "chunk_size takes 0 or more."),
        (
            not (recipe.chunk_size and recipe.model.finetune) or recipe.model.fixed_statistics,
            "In chunks, batch norms would see parts of a batch: set model.fixed_statistics=true.",
        ),
        (
            all(0 < width < recipe.model.dim for width in recipe.loss.nested),
            "loss.nested takes widths below model.dim.",
        ),
        (0 <= recipe.averaging < 1, "averaging takes 0 to just below 1."),
        (recipe.net_share >= 0, "net_share takes 0 or more."),
        (
            all(0 <= phase.warm_up <= 1 for phase in recipe.phases),
            "phases: warm_up takes a share of the phase, 0 to 1.",
        ),
        (recipe.seed >= 0, "seed takes 0 or more."),
        (recipe.seeds >= 1, "seeds takes 1 or more."),
        (all(phase.epochs >= 0 for phase in recipe.phases), "phases: epochs takes 0 or more."),
        (
            recipe.trains_nothing or any(phase.epochs for phase in recipe.phases),
            "The recipe has no epochs: give it phases, and a phase an epoch.",
        ),
    )


def _rules_of_data(recipe: "Recipe") -> tuple[Rule, ...]:
    return (
        (recipe.data.crop_size >= 0, "data.crop_size takes 0 or more."),
        (
            not recipe.data.crop_size or recipe.crops_at_random,
            "data.crop_size is of random crops: set data.crop=random_resized.",
        ),
        (
            recipe.data.crop != "random" or recipe.data.crop_size <= recipe.model.resize,
            "data.crop_size is larger than model.resize, the picture that the crop is cut from.",
        ),
        (
            recipe.data.crop_from == "resized" or recipe.data.crop == "random_resized",
            "data.crop_from is of random_resized crops: set data.crop_from=resized.",
        ),
        (
            recipe.data.crop_from == "resized"
            or not (recipe.model.square and recipe.data.crop_squeezed),
            "Originals are not squeezed: set data.crop_from=resized or data.crop_squeezed=false.",
        ),
        (0 < recipe.data.crop_area <= 1, "data.crop_area takes more than 0, up to 1."),
        (0 <= recipe.data.wrong_captions <= 1, "data.wrong_captions takes 0 to 1."),
        (
            recipe.data.crop != "ten" or not recipe.model.finetune,
            "Ten crops are for a net that is not trained: set model.finetune=false.",
        ),
    )


def _rules_of_models(recipe: "Recipe") -> tuple[Rule, ...]:
    return (
        (
            recipe.model.size <= recipe.model.resize,
            "model.size is larger than model.resize, the picture that the crop is cut from.",
        ),
        (
            not recipe.model.backbone.startswith("features") or not recipe.model.finetune,
            "The net behind features cannot be trained: set model.finetune=false.",
        ),
        (
            recipe.trains_nothing or recipe.model.backbone != "small" or recipe.model.finetune,
            "The backbone small starts from scratch and must learn: set model.finetune=true.",
        ),
        (0 <= recipe.model.word_dropout < 1, "model.word_dropout takes 0 to less than 1."),
        (
            recipe.model.caption_encoder == "gru"
            or (not recipe.model.bidirectional and recipe.model.pooling == "last"),
            "model.bidirectional and model.pooling are a GRU's: set model.caption_encoder=gru.",
        ),
    )
