"""Requests and answers, as OpenAPI describes them."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from vsepp.service.limits import MAX_DEPTH, MAX_HITS, MAX_QUERY

KEY = r"^[0-9a-f]{1,32}$"  # a number in a file, a hash in a database
# A path that is not valid UTF-8 can be opened, but not sent.
Name = Annotated[str, BeforeValidator(lambda text: text.encode(errors="replace").decode())]
Key = Annotated[str, Field(pattern=KEY, description="A photo's key.", examples=["17"])]


class SearchRequest(BaseModel):
    """The query parameters of a search."""

    q: str = Field(
        "",
        max_length=MAX_QUERY,
        description="Words, -words to avoid, in:FOLDER, after:2020-05, before:2021. Without words or "
        "a photo, the newest photos.",
        examples=["two dogs -people in:2019 after:2019-05"],
    )
    like: str | None = Field(
        None, pattern=KEY, description="The key of a photo to find similar ones.", examples=["17"]
    )
    limit: int = Field(60, ge=1, le=MAX_HITS, description="Maximum number of hits in this answer.")
    offset: int = Field(0, ge=0, le=MAX_DEPTH, description="Number of hits to skip.")
    min_score: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Leave out photos with a lower score. By default, those that match no better than chance.",
        examples=[-9],
    )
    fold: bool = Field(False, description="Show one of several near-duplicates.")


class PhotoAnswer(BaseModel):
    """A photo's metadata."""

    key: str = Field(examples=["17"])
    path: Name = Field(examples=["/home/ann/Pictures/2019/beach/dogs.jpg"])
    name: Name = Field(examples=["dogs.jpg"])
    folder: Name = Field(description="As `in:` takes it.", examples=["2019/beach"])
    taken: str = Field(
        description="Local time, without a time zone.", examples=["2019-07-14T16:02:11"]
    )
    width: int = Field(description="Upright.", examples=[4032])
    height: int = Field(examples=[3024])
    version: str = Field(description="Changes when the photo changes.")


class HitAnswer(PhotoAnswer):
    """A photo that was found."""

    score: float | None = Field(
        description="Higher is better; null if nothing was compared.",
        examples=[0.412],
    )
    alike: list[str] = Field(description="Keys of near-duplicates that are not shown.")


class QueryPartAnswer(BaseModel):
    """A word or a filter of the query."""

    text: str = Field(description="As typed.", examples=['in:"my photos"'])
    filter: Literal["", "in", "-in", "after", "before"] = Field(description="Empty for words.")
    value: str = Field(description="Without quotes.", examples=["my photos"])


class SearchAnswer(BaseModel):
    """Hits, the best first, and what users should know about them."""

    query: str
    parts: list[QueryPartAnswer] = Field(description="The query, as it was parsed.")
    like: str | None
    hits: list[HitAnswer]
    offset: int
    more: bool = Field(description="Whether there are more hits after these.")
    min_score: float | None = Field(description="Hits below it were left out.", examples=[0.31])
    unknown_words: list[str] = Field(
        description="Words of the query that the model does not know.", examples=[["zeppelin"]]
    )
    taken_for: dict[str, str] = Field(
        description="Other unknown words, and the known ones that were used instead.",
        examples=[{"puppies": "puppy"}],
    )


class Folder(BaseModel):
    folder: Name = Field(description="As `in:` takes it.", examples=["2019/beach"])
    photos: int = Field(examples=[212])


class CollectionAnswer(BaseModel):
    """What the page needs before the first search."""

    name: Name = Field(examples=["photos"])
    photos: int = Field(examples=[48211])
    folders: list[Folder] = Field(description="Those with the most photos, at most 200.")
    words: list[str] = Field(
        description="Some words that the model knows.", examples=[["dog", "snow"]]
    )
    upload_bytes: int = Field(description="The largest photo that may be uploaded.")


class Health(BaseModel):
    status: str = Field(examples=["ok"])
    photos: int = Field(examples=[48211])
