"""Pictures for people are PNGs that others read."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from hostler.workloads.gameboy.batch import Batch
from hostler.workloads.gameboy.fragments import Sampler
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.pictures import png
from hostler.workloads.gameboy.rom import Cartridge
from tests.workloads.gameboy.test_fragments import Counting


def test_a_picture_is_what_it_was(keyrooms: Game, cart: Cartridge) -> None:
    picture = np.random.default_rng(1).integers(0, 4, (72, 80)).astype(np.uint8)
    read = np.asarray(Image.open(io.BytesIO(base64.b64decode(png(picture)))).convert("L"))
    assert (read // 85 == picture).all()


def test_one_machine_after_the_other_is_shown(keyrooms: Game, cart: Cartridge) -> None:
    batch = Batch(keyrooms, cart, 2)
    sampler = Sampler(batch, seed=1)
    made = [sampler.fragment(Counting(), 0, steps=4) for _ in range(4)]
    batch.close()
    assert [list(each.pictures) for each in made] == [[0], [1], [0], [1]]
    assert made[0].pictures[0].shape == (72, 80)
    assert len(np.unique(made[0].pictures[0])) > 1, "something is drawn"
    assert len(png(made[0].pictures[0])) < 2000
