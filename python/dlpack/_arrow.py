"""What Arrow needs of Python: whether a table is an array, and what an exported schema says of lists."""

from __future__ import annotations

from sys import byteorder, modules

from ._errors import (
    MOST,
    classes_of,
    first_way_out,
    has_numbers,
    is_of,
    of_items,
    of_parts,
    of_wrapper,
    refused_by_frame,
    text_of,
    type_of_numbers,
)
from ._object import refusal

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._dlpack import DLPackObject


def check_rows(obj: Any, rows: int) -> Exception | None:
    """An array that gives itself as a table of so many rows may have another shape: xarray's do, and their coordinates
    are columns, too. The shape of a table with one column has two dimensions; pandas gives the index of one without
    columns. Of what is no array the shape may be costly: duckdb's runs a query."""
    shape = getattr(obj, "shape", None) if hasattr(obj, "__array__") else None
    is_table = hasattr(type(obj), "columns")
    if isinstance(shape, tuple) and (shape[:1] if is_table and 0 not in shape[1:] else shape) != (rows,):
        return BufferError(f"shape {shape}: its Arrow table has {rows} rows instead (pass numpy.asarray(obj))")
    if shape is not None and len(getattr(obj, "coords", ())) > 0:
        return BufferError("its Arrow table has the coordinates as columns, too (pass numpy.asarray(obj))")
    return None


def is_read_once(obj: object) -> bool:
    """An Arrow stream that is no container: reading it may consume it."""
    if not hasattr(obj, "__arrow_c_stream__"):
        return False
    for name in "__dlpack__", "__array_interface__", "__array_struct__", "__arrow_c_array__", "__len__":
        if hasattr(obj, name):
            return False
    return True


def streams_instead(obj: object, refusal: BaseException) -> BaseException | None:
    """The refusal of obj's array; None where obj gives a stream instead: nanoarrow refuses so to give several chunks
    as one array."""
    has_stream = isinstance(refusal, ValueError) and getattr(obj, "__arrow_c_stream__", None) is not None
    return None if has_stream else refusal


def stream_failed(obj: object, error: Exception) -> Exception:
    """What is raised where obj's stream was not given, or could not be read."""
    kinds = TypeError, ValueError, OverflowError, NotImplementedError, ImportError
    for kind in type(obj).__mro__ if isinstance(error, kinds) else ():
        if str(kind.__module__).startswith(("pandas.", "xarray.")):
            return refused_by_frame(obj, error)
    return error if error.__traceback__ else stream_was_read(obj, error)  # of obj's own method in Python


def stream_was_read(obj: object, error: Exception) -> Exception:
    """An error that came after obj's stream was read, or in it."""
    if type(error) not in (BufferError, ValueError) or not is_read_once(obj):
        return error
    return type(error)(
        f"{text_of(error)}; before that make this stream anew, if it can be read only once: it has been read"
    )


def explain(obj: object, protocol: str, error: Exception) -> Exception:
    """Returns the error of describing obj's memory with a hint, if there is one for obj. An error that obj raised has a
    traceback, and stays as it is."""
    text = text_of(error)
    if type(error) in (BufferError, ValueError) and error.__traceback__ is None and not text.endswith(")"):
        if text.startswith(("Arrow format ", "__arrow_c_")):
            text += first_way_out(OF_ARROW, obj, " null" in text)
        elif text.startswith(("format ", "typestr ")):
            text += first_way_out((of_items,), obj, text)
        elif text.startswith("data is NULL"):
            text += first_way_out((of_wrapper, of_parts), obj, text)
        error = type(error)(text)
    return stream_failed(obj, error) if protocol == "__arrow_c_stream__" else error


def is_number(kind: Any) -> bool:
    """True if a data type of pyarrow's is one of numbers."""
    types = modules["pyarrow"].types
    return bool(types.is_integer(kind) or types.is_floating(kind))


def of_pyarrow(name: str, array: Any, has_nulls: bool = False, is_part: bool = False) -> str | None:
    """Hint for a pyarrow array, in chunks or not; name is its expression. has_nulls: there may be others than in this
    array; is_part: it has the first items alone."""
    types, kind = modules["pyarrow"].types, array.type
    is_chunked = hasattr(array, "chunks")
    parts = (array.chunks if is_chunked else [array]) or [modules["pyarrow"].nulls(0, kind)]
    if types.is_list(kind) and is_number(kind.value_type) and not has_nulls and len(parts) == 1 and not is_part:
        [length, *others] = parts[0][:MOST_ROWS].value_lengths().unique().to_pylist() or [None]
        if length and not others and len(parts[0]) <= MOST_ROWS and not parts[0].flatten().null_count:
            return f"pass {name}.cast(pyarrow.list_({name}.type.value_type, {length}))"
    steps = ""
    while found := next_step(types, parts[0].type, has_nulls, parts):
        step, take = found
        parts = [take(part) for part in parts]
        steps += step
    kind, sample = parts[0].type, parts[0][:MOST].to_pylist()
    cast = cast_of(types, kind, sample)
    if cast is None:
        return None
    if has_nulls or types.is_null(kind) or [part for part in parts if part.null_count]:
        cast += f".fill_null({0 if not types.is_boolean(kind) else False})"
    is_bytes = types.is_fixed_size_binary(kind)
    if is_chunked and (steps or cast or is_bytes or len(array.chunks) != 1):
        steps = f".combine_chunks(){steps}"
    if is_bytes:
        size, given = kind.byte_width, f"{name}{steps}"
        place, where = ("obj", "") if given == "obj" else ("array", f", where array is {given}")
        shape = f"(len({place}), {size}), offset={place}.offset * {size}"
        return f"pass dlpack.frombuffer({place}.buffers()[1], 'uint8', {shape}){where}"
    return f"pass {name}{steps}{cast}{', with copy=None' if types.is_boolean(kind) else ''}"


def next_step(types: Any, kind: Any, has_nulls: bool, parts: list[Any]) -> tuple[str, Callable[[Any], Any]] | None:
    """A step nearer to the numbers in pyarrow's arrays of this type, as text and function; None at the numbers."""
    if hasattr(kind, "storage_type"):
        return ".storage", lambda part: part.storage
    if types.is_dictionary(kind):
        return ".indices", lambda part: part.indices
    if types.is_struct(kind):
        return ".flatten()[0]", lambda part: part.flatten()[0]
    if types.is_map(kind):
        return ".items", lambda part: part.items
    if types.is_union(kind):
        return ".field(0)", lambda part: part.field(0)
    if types.is_fixed_size_list(kind) and is_number(kind.value_type) and not has_nulls:
        if not [part for part in parts if part.null_count or part.flatten().null_count]:
            return None
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list or types.is_list_view(kind) or types.is_large_list_view(kind):
        return ".flatten()", lambda part: part.flatten()
    return None


def cast_of(types: Any, kind: Any, sample: list[Any]) -> str | None:
    """The cast that makes numbers of pyarrow's items of this type; None if none does. sample: the first items."""
    if is_number(kind) or types.is_boolean(kind) or types.is_fixed_size_binary(kind):
        return ""
    if types.is_null(kind):
        return ".cast('int64')"
    if types.is_date32(kind) or types.is_time32(kind):
        return ".cast('int32')"
    if types.is_temporal(kind) and not types.is_interval(kind):
        return ".cast('int64')"
    if types.is_decimal(kind):
        return ".cast('float64')"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return ".cast('float64')" if is_text and type_of_numbers(sample) else None


def of_pyarrow_object(obj: Any, has_nulls: bool) -> str | None:
    if not is_of(obj, "pyarrow"):
        return None
    name, is_stream = "obj", hasattr(obj, "read_all")
    if is_stream or hasattr(obj, "num_columns"):  # of a stream nothing is left
        kinds = obj.schema.types
        i = ([i for i, kind in enumerate(kinds) if is_number(kind)] or [0])[0]
        column = obj.schema.names[i]
        place = repr(column) if obj.schema.names.count(column) == 1 and len(column) <= MOST else str(i)
        name = f"{'pyarrow.table(obj)' if is_stream else 'obj'}[{place}]"
        obj = modules["pyarrow"].chunked_array([], kinds[i]) if is_stream else obj[i]
    return of_pyarrow(name, obj, has_nulls)


def of_polars(obj: Any, has_nulls: bool) -> str | None:
    if not is_of(obj, "polars"):
        return None
    name = "obj"
    if hasattr(obj, "columns"):
        i = ([i for i, kind in enumerate(obj.dtypes) if kind.is_numeric()] or [0])[0]
        name, obj = f"obj[{obj.columns[i]!r}]", obj.to_series(i)
    if str(obj.dtype).startswith("List(") and obj.dtype.inner.is_numeric() and len(obj) <= MOST_ROWS:
        lengths = set(obj.list.drop_nulls().list.len().to_list())
        if len(lengths) == 1 and set(obj.list.len().to_list()) == lengths != {0}:
            return f"pass {name}.list.to_array({lengths.pop()})"
    given, sample = name, obj.head(MOST)
    is_flat = False
    while (kind := str(sample.dtype).partition("(")[0]) in ("List", "Array", "Struct"):
        if kind == "Struct":
            field = sample.struct.fields[0]
            name, sample = f"{name}.struct.field({field!r})", sample.struct.field(field)
        else:
            if kind == "Array" and sample.dtype.inner.is_numeric() and not has_nulls:
                break
            drop = ".drop_nulls()" * (kind == "List")  # of empty lists, explode makes nulls
            name, sample, is_flat = f"{name}.explode(){drop}", sample.explode(), kind == "List"
    casts = {"String": ".cast(polars.Float64)", "Decimal": ".cast(polars.Float64)", "Int128": ".cast(polars.Float64)"}
    casts |= dict.fromkeys(("Categorical", "Enum", "Date", "Datetime", "Duration", "Time"), ".to_physical()")
    casts |= {"Null": ".cast(polars.Float64)", "UInt128": ".cast(polars.Float64)"}
    if kind in ("String", "Object") and not type_of_numbers(sample.to_list()):
        return None
    if kind == "Object":
        return f"pass numpy.asarray({name}).astype({type_of_numbers(sample.to_list())}"
    if kind not in casts and kind != "Array" and not has_numbers(sample):
        return None
    name += casts[kind] if kind in casts else ""
    if not is_flat and (has_nulls or obj.null_count()):
        name += f".fill_null({False if kind == 'Boolean' else 0})"
    if name == given and obj.n_chunks() > 1:
        name += ".rechunk()"
    return f"pass {name}" + ", with copy=None" * (kind == "Boolean")


def of_pandas_object(obj: Any, has_nulls: bool) -> str | None:
    if not is_of(obj, "pandas"):
        return None
    name = "obj"
    if obj.ndim == 2:
        i = ([i for i in range(obj.shape[1]) if has_numbers(obj.iloc[:, i])] or [0])[0]
        label = obj.columns[i]
        is_plain = type(label) is str and len(label) <= MOST and obj.columns.is_unique
        name, obj = f"obj[{label!r}]" if is_plain else f"obj.iloc[:, {i}]", obj.iloc[:, i]
    kind, array = str(obj.dtype), obj.array
    if kind == "category":
        return f"pass {name}.cat.codes"
    if hasattr(array, "asi8"):
        return f"pass {name}.array.asi8, their ticks as int64"
    if kind.startswith("interval"):
        return f"pass numpy.asarray({name}.array.left)" if has_numbers(array.left) else None
    is_arrow = hasattr(obj.dtype, "pyarrow_dtype")
    if not has_numbers(obj) or (is_arrow and not is_number(obj.dtype.pyarrow_dtype) and "bool" not in kind):
        sample = modules["pyarrow"].array(obj if is_arrow else obj.head(MOST))
        return of_pyarrow(f"pyarrow.array({name})", sample, has_nulls, is_part=len(sample) < len(obj))
    if not obj.isna().any():
        return f"pass {name}"
    if isinstance(obj.dtype, modules["numpy"].dtype):
        return f"pass {name}.to_numpy()"  # in which NaN stays
    return f"pass {name}.fillna({'False), with copy=None' if 'bool' in kind else '0)'}"


def of_duckdb_relation(obj: Any, has_nulls: bool) -> str | None:
    """Hint for a query, which is not run again."""
    if "duckdb.DuckDBPyRelation" not in classes_of(obj) and "_duckdb.DuckDBPyRelation" not in classes_of(obj):
        return None
    kinds = [str(kind) for kind in obj.types]
    numbers = [i for i, kind in enumerate(kinds) if kind.strip("U") in DUCKDB_NUMBERS]
    if numbers and len(kinds) > 1:
        return f"pass obj[{obj.columns[numbers[0]]!r}]"
    kind = kinds[0].partition("(")[0]
    if len(kinds) > 1 or (kind not in DUCKDB_CASTS and kind.strip("U") not in DUCKDB_NUMBERS):
        return None
    fill = ".fill_null(0)" * has_nulls
    return f"pass pyarrow.table(obj)[0].combine_chunks(){DUCKDB_CASTS[kind] if kind in DUCKDB_CASTS else ''}{fill}"


def of_xarray(obj: Any, has_nulls: bool) -> str | None:
    return "pass numpy.asarray(obj)" if is_of(obj, "xarray") and has_numbers(obj) else None


def of_nanoarrow(obj: Any, has_nulls: bool) -> str | None:
    """Hint for nanoarrow's arrays, if the program uses pyarrow. pyarrow trusts what it is given, so of other libraries
    nothing is given to it here."""
    if not is_of(obj, "nanoarrow"):
        return None
    try:
        return of_pyarrow("pyarrow.array(obj)", modules["pyarrow"].array(obj))
    except ValueError:  # there are several chunks
        return of_pyarrow("pyarrow.chunked_array(obj)", modules["pyarrow"].chunked_array(obj))


OF_ARROW = of_pyarrow_object, of_polars, of_pandas_object, of_duckdb_relation, of_xarray, of_nanoarrow
MOST_ROWS = 100_000  # that are looked at
DUCKDB_NUMBERS = "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"
DUCKDB_CASTS = {
    "DATE": ".cast('int32')",
    "DECIMAL": ".cast('float64')",
    "ENUM": ".indices",
    "TIME": ".cast('int64')",
    "TIMESTAMP": ".cast('int64')",
}


def describe_column(x: DLPackObject, letter: str, is_compact: bool) -> bytes | Exception:
    """The format of x's items, in 8 bytes, and their metadata, in 80; then, where rows are lists, the lists' format, in
    24 bytes, and the metadata that make them tensors. C has these lengths."""
    if letter not in ITEMS:
        return BufferError(refusal(x, "no Arrow type"))
    items = BOOLEANS if x.dtype == "bool" else ITEMS[letter]
    if is_compact and x.ndim == 1:
        return items
    shape = x.shape
    if not shape:
        return BufferError(
            "shape (): expected one dimension or more, as Arrow's arrays have a length (numpy.asarray(x).reshape(1) "
            "has one)"
        )
    if not is_compact:
        return BufferError(refusal(x, "not row-major"))
    size = 1  # math.prod of them, whose module would take a tenth of this package's import
    for length in shape[1:]:
        size *= length
    if size >= 1 << 31:
        return BufferError(
            f"shape: rows of {size} items; expected at most {(1 << 31) - 1}, the longest of Arrow's fixed-size lists "
            "(numpy.asarray(x).reshape(-1) has no rows)"
        )
    parameters = '{"shape":[' + ",".join(map(str, shape[1:])) + "]}"
    return items + f"+w:{size}".encode().ljust(24, b"\0") + extension("arrow.fixed_shape_tensor", parameters)


def extension(name: str, parameters: str) -> bytes:
    """The metadata of an extension type, as the C data interface lays them out."""
    texts = "ARROW:extension:name", name, "ARROW:extension:metadata", parameters
    pairs = [len(text).to_bytes(4, byteorder) + text.encode() for text in texts]
    return (2).to_bytes(4, byteorder) + b"".join(pairs)


ITEMS = {letter: letter.encode().ljust(88, b"\0") for letter in "csilCSILefg"}
BOOLEANS = (b"c".ljust(8, b"\0") + extension("arrow.bool8", "")).ljust(88, b"\0")
