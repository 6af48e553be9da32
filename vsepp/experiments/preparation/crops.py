"""What of a picture is seen in training: random crops may be of another size, and squeezed or not."""

from dataclasses import replace

from vsepp.data.pictures import View
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.backbones import accept_other_sizes
from vsepp.encoders.joint import JointEmbedding
from vsepp.experiments.recipe import Recipe


def view_of_training(recipe: Recipe, view: View) -> View:
    size, area = recipe.data.crop_size or view.size, recipe.data.crop_area
    squeezed = view.square and (recipe.data.crop_squeezed or not recipe.crops_at_random)
    view = replace(view, size=size, least_area=area, square=squeezed)
    return replace(view, crop_from=recipe.data.crop_from)


def accept_crops(recipe: Recipe, model: JointEmbedding, architecture: Architecture) -> None:
    """Crops of `data.crop_size` fit the net, too."""
    if recipe.data.crop_size not in (0, architecture.size) and not architecture.takes_features:
        accept_other_sizes(model.image_encoder.backbone.net)
