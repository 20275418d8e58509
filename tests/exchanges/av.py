"""PyAV's planes and packets."""

from collections.abc import Callable
from fractions import Fraction

import av

import dlpack
from dlpack._abi import gather
from dlpack.tests.memory import Memory, of_buffer

from .checks import withholds

SIZES: dict[str, tuple[int, ...]] = {"gray": (), "rgb24": (3,)}  # the bytes of a pixel


def plane(pixels: str, width: int) -> Memory:
    """A plane's own capsules are legacy ones: they can't say that the memory may be written."""
    frame = av.VideoFrame(width, 8, pixels)
    plane = frame.planes[0]
    memoryview(plane)[:] = bytes(i % 251 for i in range(plane.buffer_size))
    shape = (plane.height, plane.width, *SIZES[pixels])
    strides = (plane.line_size, *SIZES[pixels], 1)
    values = gather(plane.buffer_ptr, shape, strides, 1)
    return Memory(plane, "uint8", shape, values, plane.buffer_ptr, strides, readonly=True)


def audio() -> Memory:
    frame = av.AudioFrame("fltp", "mono", 160)
    memoryview(frame.planes[0])[:] = bytes(frame.planes[0].buffer_size)
    return of_buffer(frame.planes[0])


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "VideoPlane": lambda: plane("gray", 64),
    "VideoPlane, padded": lambda: plane("gray", 30),
    "VideoPlane, colours": lambda: plane("rgb24", 64),
    "AudioPlane": audio,
    "Packet": lambda: of_buffer(av.Packet(bytes(range(100)))),
}


def upside_down() -> object:
    """A plane whose rows lie in reverse order, which PyAV refuses to export; its buffer has all bytes as they lie."""
    graph = av.filter.Graph()
    graph.link_nodes(
        graph.add_buffer(width=64, height=32, format="gray", time_base=Fraction(1, 25)),
        graph.add("vflip"),
        graph.add("buffersink"),
    ).configure()
    graph.push(av.VideoFrame(64, 32, "gray"))
    return graph.pull().planes[0]


def withholds_planes_with_reversed_rows() -> None:
    withholds({"a plane": upside_down})


def takes_the_planes_of_a_frame() -> None:
    brightness, colour = bytearray(64 * 32), bytearray(64 * 16)
    views = memoryview(brightness).cast("B", (32, 64)), memoryview(colour).cast("B", (16, 32, 2))
    frame = av.VideoFrame.from_dlpack(tuple(dlpack.asdlpack(view) for view in views), "nv12")
    brightness[3] = colour[4] = 7
    found = memoryview(frame.planes[0])[3], memoryview(frame.planes[1])[4]
    assert found == (7, 7), f"{found}: copied, expected to be shared"


CHECKS = {
    "takes the planes of a frame": takes_the_planes_of_a_frame,
    "withholds planes with reversed rows": withholds_planes_with_reversed_rows,
}
