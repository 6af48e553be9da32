"""What the paper's text says where the authors' release, which made its numbers, does otherwise."""

from typing import Any

from vsepp.experiments.keys import apply

ALWAYS = (
    "model.square=true",  # Sec. 3: "resize the image to 256x256"
    "model.project_captions=true",  # Eq. 2 has a W_g
    "model.normalize_features=false",  # Eq. 1 maps the features as they are
    "loss.reduction=mean",  # Eq. 4
    "gradient_clip=0",  # no word of clipping
)
INSTEAD = {
    ("data", "crop", "random_resized"): "random",  # Sec. 3: RC is a crop of that picture
    ("data", "crop_from", "original"): "resized",
    ("model", "similarity", "order_similarity_rooted"): "order_similarity",  # Sec. 3.5: squared
}
OF_ROWS = {"3.9": "model.normalize_images=false"}  # Sec. 3: VSE0 keeps the image norm
VALIDATION = {"coco": 0, "f30k": 1000}  # Sec. 3.1: all of COCO's 5,000, of Flickr30K 1,000


def follow_the_text(content: dict[str, Any]) -> None:
    """Change a recipe's table to what the text says."""
    for change in ALWAYS:
        apply(content, change)
    for (table, key, release), paper in INSTEAD.items():
        if content.get(table, {}).get(key) == release:
            content[table][key] = paper
    if content["name"] in OF_ROWS:
        apply(content, OF_ROWS[content["name"]])
    collection = content.get("data", {}).get("collection")
    if collection in VALIDATION:
        content["data"]["validate_images"] = VALIDATION[collection]
