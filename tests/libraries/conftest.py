"""Each library's own tables, as parameters of the tests in exchange.py."""

import gc


def pytest_collection_finish():
    """What the libraries made when they were imported is no garbage: looking at it anew takes most of the time."""
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc):
    for parameter, table in ("thing", "things"), ("withheld", "withheld"):
        if parameter in metafunc.fixturenames:
            metafunc.parametrize(parameter, getattr(metafunc.cls, table))
