"""Pillow's images. Their array interface has a copy of the pixels, made anew each time."""

from types import SimpleNamespace
from typing import Any

import PIL.Image

import dlpack
from dlpack._abi import look, read_managed
from dlpack.tests.memory import Memory, buffer_address, references_of

from .checks import gives

MODES = {"L": "uint8", "I": "int32", "F": "float32", "I;16": "uint16", "RGB": "uint8", "CMYK": "uint8"}


def picture(mode: str) -> Any:
    image = PIL.Image.new(mode, (4, 3))
    image.putpixel((1, 2), tuple(range(1, 1 + len(image.getbands()))))
    return image


def known(image: Any) -> Memory:
    """Reads an image's interface only once, so that the address of its pixels is known."""
    interface = image.__array_interface__
    pixels = interface["data"]
    said = SimpleNamespace(__array_interface__=interface)
    dtype, shape, address = MODES[image.mode], interface["shape"], buffer_address(pixels)
    return Memory(said, dtype, shape, pixels, address, readonly=True, references=references_of(pixels))


PROVIDERS = {"Image": lambda: known(picture("RGB")), "Image, floats": lambda: known(picture("F"))}


def gives_every_mode() -> None:
    gives(*(known(picture(mode)) for mode in MODES))


def gives_a_snapshot() -> None:
    image = picture("L")
    x = dlpack.asdlpack(image)
    before = image.tobytes()
    image.putpixel((0, 0), 9)
    seen = read_managed(look(x.__dlpack__(max_version=(1, 3))))
    assert (seen.values, seen.readonly) == (before, True), seen


def becomes_an_image_by_its_array_interface() -> None:
    for mode in "L", "I", "F", "RGB", "RGBA":
        pixels = picture(mode)
        image = PIL.Image.fromarray(dlpack.asdlpack(pixels))
        assert (image.mode, image.size, image.tobytes()) == (mode, pixels.size, pixels.tobytes()), image


CHECKS = {
    "gives every mode": gives_every_mode,
    "gives a snapshot": gives_a_snapshot,
    "our memory becomes an image by its array interface": becomes_an_image_by_its_array_interface,
}
