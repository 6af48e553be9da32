"""What is asked and what is answered, as OpenAPI describes it."""

from typing import Annotated

from pydantic import BaseModel, Field

from vsepp.service.limits import DEEPEST, LONGEST_QUERY, MOST_HITS

KEY = r"^[0-9a-f]{1,32}$"  # a number in a file, a hash in a database
Key = Annotated[str, Field(pattern=KEY, description="A photo's key.", examples=["17"])]


class Asked(BaseModel):
    """The part of a search that stands in the address."""

    q: str = Field(
        "",
        max_length=LONGEST_QUERY,
        description="Words, -words to leave out, in:FOLDER, after:2020-05, before:2021. Without "
        "words or a photo, the photos taken last.",
        examples=["two dogs -people in:2019 after:2019-05"],
    )
    like: str | None = Field(
        None, pattern=KEY, description="The key of a photo to look alike.", examples=["17"]
    )
    limit: int = Field(60, ge=1, le=MOST_HITS, description="Hits in this answer.")
    offset: int = Field(0, ge=0, le=DEEPEST, description="Hits to pass over: those before.")
    min_score: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Leave out what scores less. Without it, what fits no better than chance.",
        examples=[-9],
    )
    fold: bool = Field(False, description="Show near-duplicates once.")


class PhotoAnswer(BaseModel):
    """What is known of a photo."""

    key: str = Field(examples=["17"])
    path: str = Field(examples=["/home/ann/Pictures/2019/beach/dogs.jpg"])
    name: str = Field(examples=["dogs.jpg"])
    folder: str = Field(description="As `in:` takes it.", examples=["2019/beach"])
    taken: str = Field(
        description="What the clock on the wall showed.", examples=["2019-07-14T16:02:11"]
    )
    width: int = Field(description="Upright.", examples=[4032])
    height: int = Field(examples=[3024])
    version: str = Field(description="Another one whenever the photo has changed.")


class HitAnswer(PhotoAnswer):
    """A photo that was found."""

    score: float | None = Field(
        description="The higher, the better it fits; none where nothing was compared.",
        examples=[0.412],
    )
    alike: list[str] = Field(description="Keys of near-duplicates that were folded under it.")


class SearchAnswer(BaseModel):
    """Hits, the best first, and what the user should know about them."""

    query: str
    like: str | None
    hits: list[HitAnswer]
    offset: int
    more: bool = Field(description="Whether there are hits behind these.")
    min_score: float | None = Field(description="Hits below it were left out.", examples=[0.31])
    unknown_words: list[str] = Field(
        description="Words of the query that the model has never seen.", examples=[["zeppelin"]]
    )
    taken_for: dict[str, str] = Field(
        description="Other such words, and the known ones that were looked for instead.",
        examples=[{"puppies": "puppy"}],
    )


class Folder(BaseModel):
    folder: str = Field(description="As `in:` takes it.", examples=["2019/beach"])
    photos: int = Field(examples=[212])


class CollectionAnswer(BaseModel):
    """What a page wants to know before the first search."""

    name: str = Field(examples=["photos"])
    photos: int = Field(examples=[48211])
    folders: list[Folder] = Field(description="Those with the most photos, at most 200.")
    words: list[str] = Field(description="Some that the model knows.", examples=[["dog", "snow"]])
    upload_bytes: int = Field(description="The largest photo that may be uploaded.")


class Health(BaseModel):
    status: str = Field(examples=["ok"])
    photos: int = Field(examples=[48211])
