"""REST over a Collection (FastAPI), and the page that uses it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from vsepp.search.collection import Collection
from vsepp.service.access import (
    Gate,
    SafeHeaders,
    TokenRequired,
    refuse_other_hosts,
    refuse_other_origins,
)
from vsepp.service.answers import Folders
from vsepp.service.decoder_pool import DecoderPool, ThumbnailCache
from vsepp.service.limits import LimitedBody, Limits, TimedThreads
from vsepp.service.problems import answer_problems
from vsepp.service.routes import ServiceState, api

PAGE = Path(__file__).parent / "page"
PUBLIC = {"/", *(f"/{file.name}" for file in PAGE.iterdir())}  # the page itself is not private
API_VERSION = "1"


def create_app(
    collection: Collection, limits: Limits | None = None, token: str | None = None
) -> FastAPI:
    """Without a token, only requests to localhost or a loopback address are answered."""
    limits = limits or Limits()
    app = FastAPI(
        title="vsepp",
        summary="Find photos by words, by a photo, or by both.",
        version=API_VERSION,
        lifespan=_lifespan,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
    )
    photos = DecoderPool(2, limits)
    app.state.service = ServiceState(
        collection,
        limits,
        Folders(collection),
        searches=TimedThreads(limits.seconds, 4),
        lookups=TimedThreads(limits.seconds, 2),
        health=TimedThreads(limits.seconds, 1),
        uploads=DecoderPool(1, limits),
        photos=photos,
        thumbnails=ThumbnailCache(limits.thumbnail_bytes, photos),
    )
    app.include_router(api)
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    answer_problems(app)
    # The last one added is the first to see a request.
    app.add_middleware(LimitedBody, limits=limits)
    access = refuse_other_hosts if token is None else TokenRequired(token, PUBLIC)
    app.add_middleware(Gate, checks=(refuse_other_origins, access))
    app.add_middleware(SafeHeaders)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.service.close()
