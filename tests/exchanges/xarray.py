"""xarray's arrays: what they are made of shares memory. They themselves are Arrow tables, of labels and of values."""

from typing import Any

import xarray

from dlpack.tests.libraries.numpy import known, matrix

from .checks import withholds


def labelled() -> Any:
    return xarray.DataArray(matrix(), dims=("x", "y"))


PROVIDERS = {
    "DataArray.data": lambda: known(labelled().data),
    "DataArray.values": lambda: known(labelled().isel(x=slice(1, 3)).values),
}


def withholds_what_is_labelled() -> None:
    withholds({"a Dataset": lambda: labelled().to_dataset(name="a")}, TypeError)
    if hasattr(xarray.DataArray, "__arrow_c_stream__"):
        withholds({"a DataArray": labelled, "a DataArray with labels": lambda: labelled().assign_coords(x=[1, 2, 3])})


CHECKS = {"withholds what is labelled": withholds_what_is_labelled}
