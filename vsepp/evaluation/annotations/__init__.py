"""Annotations that others published, and what a model scores on them.

`gallery` finds items by COCO's numbers; `eccv_caption`, `crisscrossed` and `pmrp` read more positives than COCO's pairs
and return `Statistic`s, means over queries that can be resampled; `judgements` correlates scores with how people judged
captions of Flickr8k. None of these files is part of this package: the user names where they are.
"""
