from itertools import pairwise

import numpy as np

from vsepp.data.collections import open_data
from vsepp.data.shapes import COLOURS, FAMILY, SHAPES


def test_the_world_is_the_same_every_time(world):
    again = open_data("shapes:320").items[:160]
    assert [item.captions for item in again] == [item.captions for item in world.items]
    assert np.array_equal(again[7].path.open(64), world.items[7].path.open(64))


def test_captions_tell_what_is_in_the_picture(world):
    for item in world.items:
        things = {(thing.colour, thing.shape) for thing in item.path.things}
        assert len(things) == 3
        assert len(set(item.captions)) == 5
        for caption in item.captions:
            told = caption.replace(",", "").split()
            named = {(c, s) for c, s in pairwise(told) if s in SHAPES}
            assert named == things


def test_relations_are_true(world):
    checked = 0
    for item in world.items:
        at = {(t.colour, t.shape): (t.x, t.y) for t in item.path.things}
        told = item.captions[0].replace(",", "").split()
        places = [n for n, word in enumerate(told) if word in SHAPES][:2]
        (x1, y1), (x2, y2) = (at[told[n - 1], told[n]] for n in places)
        between = told[places[0] + 1 : places[1]]
        for word, holds in (
            ("left", x1 < x2),
            ("right", x1 > x2),
            ("above", y1 < y2),
            ("over", y1 < y2),
            ("below", y1 > y2),
            ("under", y1 > y2),
        ):
            if word in between:
                assert holds, item.captions[0]
                checked += 1
    assert checked == len(world.items)


def test_a_family_differs_in_one_thing(world):
    def looks(item):
        # the board's cell, not the jittered place
        return {
            (t.shape, t.colour, t.texture, t.size, round(t.x * 10 / 3), round(t.y * 10 / 3))
            for t in item.path.things
        }

    families = [world.items[n : n + FAMILY] for n in range(0, len(world.items), FAMILY)]
    for first, *others in families:
        for other in others:
            assert 1 <= len(looks(first) - looks(other)) <= 2
    assert len(families) == 40


def test_families_stay_together_in_a_split(world):
    for start in range(0, len(world.items), FAMILY):
        assert len({item.split for item in world.items[start : start + FAMILY]}) == 1


def test_things_are_painted_in_their_colours(world):
    scene = world.items[0].path
    pixels = np.asarray(scene.open(256)).astype(int)
    for thing in scene.things:
        distance = np.abs(pixels - np.array(COLOURS[thing.colour])).sum(axis=-1)
        y, x = np.nonzero(distance < 6)
        assert len(x) > 100
        assert abs(x.mean() / 256 - thing.x) < 0.1
        assert abs(y.mean() / 256 - thing.y) < 0.1
