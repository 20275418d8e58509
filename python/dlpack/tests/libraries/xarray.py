"""xarray's arrays share no memory; what they are made of does."""

from typing import Any

import xarray

from ..checks import withholds
from .numpy import known, matrix


def labelled() -> Any:
    return xarray.DataArray(matrix(), dims=("x", "y"))


PROVIDERS = {
    "DataArray.data": lambda: known(labelled().data),
    "DataArray.values": lambda: known(labelled().isel(x=slice(1, 3)).values),
}


def withholds_what_is_labelled() -> None:
    withholds({"a DataArray": labelled, "a Dataset": lambda: labelled().to_dataset(name="a")}, TypeError)


CHECKS = {"withholds what is labelled": withholds_what_is_labelled}
