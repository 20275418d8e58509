"""`make coverage` takes long and is run rarely: each run of the tests looks at what it expects of the sources."""

import builds
import lines


def test_the_build_that_counts_lines_fits_the_sources(tmp_path):
    builds.copy_sources(tmp_path, lines.instrument)
