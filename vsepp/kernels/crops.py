"""Boxes of pictures, scaled to one size (`loading.on_device.resample`): a program for every row of a crop."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from vsepp.kernels import power_of_two


@triton.jit
def cut_rows(pixels, places, boxes, out, size, CUT_FIRST: tl.constexpr, BLOCK: tl.constexpr):
    picture, row, column = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    start, width = tl.load(places + 3 * picture), tl.load(places + 3 * picture + 1)
    height, box = tl.load(places + 3 * picture + 2), boxes + 5 * picture
    scale_x, scale_y = (
        tl.load(box + 2).to(tl.float32) / size,
        tl.load(box + 3).to(tl.float32) / size,
    )
    reach_x, reach_y = tl.maximum(scale_x, 1.0), tl.maximum(scale_y, 1.0)
    center_x = tl.load(box).to(tl.float32) + (column + 0.5) * scale_x
    center_y = tl.load(box + 1).to(tl.float32) + (row + 0.5) * scale_y
    left, top, right, bottom = 0, 0, width, height
    if CUT_FIRST:
        left, top = tl.load(box), tl.load(box + 1)
        right, bottom = left + tl.load(box + 2), top + tl.load(box + 3)
    first_x = tl.maximum(tl.floor(center_x - reach_x + 0.5).to(tl.int32), left)
    first_y = tl.maximum(tl.floor(center_y - reach_y + 0.5).to(tl.int32), top)
    red, green = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    blue, total = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for y in range(first_y, tl.minimum(first_y + 2 * tl.ceil(reach_y).to(tl.int32) + 1, bottom)):
        weight_y = tl.maximum(1 - tl.abs(y + 0.5 - center_y) / reach_y, 0.0)
        for step in range(2 * tl.ceil(reach_x).to(tl.int32) + 1):
            x = first_x + step
            inside = (x < right) & (column < size)
            weight = tl.maximum(1 - tl.abs(x + 0.5 - center_x) / reach_x, 0.0) * weight_y
            weight = tl.where(inside, weight, 0.0)
            place = pixels + 3 * (start + y * width + x)
            red += weight * tl.load(place, mask=inside, other=0).to(tl.float32)
            green += weight * tl.load(place + 1, mask=inside, other=0).to(tl.float32)
            blue += weight * tl.load(place + 2, mask=inside, other=0).to(tl.float32)
            total += weight
    total = tl.where(column < size, total, 1.0)
    at = tl.where(tl.load(box + 4) != 0, size - 1 - column, column)
    place, inside = out + 3 * ((picture.to(tl.int64) * size + row) * size + at), column < size
    # adding a half and cutting off is rounding
    tl.store(place, (red / total + 0.5).to(tl.uint8), mask=inside)
    tl.store(place + 1, (green / total + 0.5).to(tl.uint8), mask=inside)
    tl.store(place + 2, (blue / total + 0.5).to(tl.uint8), mask=inside)


def cut(
    pixels: Tensor, places: Tensor, boxes: Tensor, size: int, cut_first: bool = False
) -> Tensor:
    # pixels (P, 3) uint8, places (M, 3), boxes (M, 5) -> (M, 3, S, S) uint8, channels last in memory
    out = torch.empty(len(boxes), size, size, 3, dtype=torch.uint8, device=pixels.device)
    with torch.cuda.device_of(pixels):
        cut_rows[(len(boxes), size)](
            pixels, places, boxes, out, size, CUT_FIRST=cut_first, BLOCK=power_of_two(size)
        )
    return out.permute(0, 3, 1, 2)
