"""`make coverage` takes long and is run rarely: each run of the tests looks at what it expects of the sources."""

import runpy

from support.alone import ROOT
from support.builds import copy_sources


def test_the_build_that_counts_lines_fits_the_sources(tmp_path):
    copy_sources(tmp_path, runpy.run_path(str(ROOT / "tools" / "coverage.py"))["instrument"])
