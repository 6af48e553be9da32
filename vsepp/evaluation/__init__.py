"""A model and held-out pairs -> R@K, and all else that the field reports, with its uncertainty.

`retrieval` measures a model as the paper does. `embeddings` reads anybody's vectors, `score_matrix` and `relevance` rank
them, `annotations`, `judgements` and `probes` compare with what others wrote down, `uncertainty` says how far chance
explains a number, `measurement` puts all of it together, and `result_tables`, `per_query` and the pages print it.
"""
