"""A model and held-out pairs -> R@K, and all else that the field reports, with its uncertainty.

`retrieval` measures a model as the paper does; `behaviour` and `collapse` watch it while it is trained.
`measurement` measures everything: it takes `embeddings` (`embedding_files` reads anybody's), ranks and resamples them
with `metrics`, and adds what `annotations` of others and people's judgement say. `probes` ask for more than retrieval.
`reports` has its tables and pages, `figures` draws, and `audit` examines the data itself.
"""
