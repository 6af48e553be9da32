"""From scores to numbers, and how far to trust them.

`score_matrix` gives scores of all images with all captions, a block at a time; `relevance` ranks the relevant items of
each query and makes recall, mAP@R, nDCG and the like of the ranks; `rank_correlation` compares scores with ratings;
`uncertainty` has bootstrap intervals and permutation tests over images. Nothing here knows a model or a file.
"""
