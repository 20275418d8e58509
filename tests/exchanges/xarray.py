"""xarray's arrays: what they are made of shares memory. They themselves are Arrow tables, of labels and of values."""

from typing import Any

import xarray

from dlpack.tests.libraries.numpy import known, matrix


def labelled() -> Any:
    return xarray.DataArray(matrix(), dims=("x", "y"))


PROVIDERS = {
    "DataArray.data": lambda: known(labelled().data),
    "DataArray.values": lambda: known(labelled().isel(x=slice(1, 3)).values),
}
