"""dpctl.tensor.from_dlpack, for the rules alone. Memory of the CPU needs intel-opencl-rt, too."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

# The package leaves its driver where no loader of OpenCL looks for it.
os.environ.setdefault("OCL_ICD_FILENAMES", str(Path(sys.prefix, "lib", "libintelocl.so")))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it moves to dpnp
    from dpctl import tensor

make: Any = tensor.asarray
take: Any = tensor.from_dlpack
