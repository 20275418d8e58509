"""pytest-dlpack makes a test of each rule of DLPack; pytest.ini names what it tests. With Python's headers:

cc -shared -fPIC -I"$(python -c 'import dlpack; print(dlpack.get_include())')" \
    -I"$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')" tinyarray.c -o tinyarray.so
python -m pytest
"""

from collections.abc import Callable


def test_rule(dlpack_rule: Callable[[], None]) -> None:
    dlpack_rule()
