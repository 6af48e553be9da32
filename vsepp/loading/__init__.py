"""Captioned images -> batches of tensors: what a collection becomes once torch is there.

`Pairs` (batches.py) has the words of a split and a source of its images: stored features or pictures in memory
(images.py), or pictures on a GPU (on_device.py). `Batches` draws an epoch by its number; caption_noise.py
drops words and permutes captions. To add a source of images, implement `ImageSource` and give it to
`Pairs.with_images`.
"""
