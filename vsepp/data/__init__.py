"""Collections of captioned images, without torch.

`collections.open_data` recognises a layout and opens it by one of the readers (`folder`, `webdataset`, `karpathy`,
`coco`, `features`, `shapes`) as `captioned.CaptionedImages`. `pictures` decodes and crops; `image_file` is the only
place where Pillow gets a file, by format; `exif` looks for hostile tags. `tokens` turns captions into word ids, with
`treebank` for the release's tokenizer. `resources` shares memory and threads.
"""
