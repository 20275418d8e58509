"""`python tests/exchanges`: `python -m dlpack.tests` with the adapters of this package."""

import os.path
import sys

if __name__ == "__main__":
    # Python put this folder there, whose modules have the names of the libraries.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from dlpack.tests.__main__ import main

    main("exchanges")
