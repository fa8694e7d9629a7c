"""The sizes of pictures, and which are damaged."""

from __future__ import annotations

import unittest
from typing import Any

from .. import images
from .test_display import JPEG, SETUP

scope: dict[str, Any] = {}
exec(SETUP, scope)


class TestImages(unittest.TestCase):
    def test_sizes(self) -> None:
        self.assertEqual(images.png_size(scope["png"](7, 3)), (7, 3))
        self.assertEqual(images.jpeg_size(JPEG), (5, 3))

    def test_damaged_pictures_are_none(self) -> None:
        png = scope["png"](7, 3)
        for n in range(len(png)):
            flipped = png[:n] + bytes([png[n] ^ 1]) + png[n + 1:]
            for name, data in (("cut", png[:n]), ("flipped", flipped)):
                with self.subTest(name, n=n), self.assertRaises(ValueError):
                    images.png_size(data)
        for n in range(len(JPEG)):
            with self.subTest("JPEG", n=n), self.assertRaises(ValueError):
                images.jpeg_size(JPEG[:n])
