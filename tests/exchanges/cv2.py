"""OpenCV's images are numpy's arrays."""

from typing import Any

import cv2
import numpy as np

import dlpack
from dlpack.tests.libraries.numpy import aligned, known


def picture() -> Any:
    return cv2.cvtColor(np.arange(36, dtype="u1").reshape(3, 4, 3), cv2.COLOR_BGR2RGB)


PROVIDERS = {"image": lambda: known(picture()), "Mat": lambda: known(cv2.Mat(aligned(picture())))}


def writes_into_a_bytearray() -> None:
    pixels = bytearray(12)
    image = np.from_dlpack(dlpack.asdlpack(memoryview(pixels).cast("B", (3, 4))))
    cv2.rectangle(image, (0, 0), (3, 2), 255, -1)
    assert pixels == b"\xff" * 12, pixels


CHECKS = {
    "writes into a bytearray": writes_into_a_bytearray,
}
