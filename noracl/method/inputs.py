"""What people have (tensors, arrays, frames, lists) as the tensors that the method works with."""

from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noracl.method.checks import plain, require, shown

ENCODE = "encode text and categories as numbers"
GIVE = "give an array, a tensor, a data frame or a list of numbers"
ENCODE_LABELS = "encode text labels as 0 … classes − 1"


def as_matrix(name: str, value: Any) -> Tensor:
    """Inputs, samples × inputs: uint8 stays, all other real numbers become float32."""
    found = _tensor(name, value, ENCODE)
    shape = tuple(found.shape)
    flatten = f"give each sample one row, as by {name}.reshape(len({name}), -1)"
    require(len(shape) == 2, f"{name} must be a samples × inputs matrix, got shape {shape}: {flatten}")
    require(shape[1] > 0, f"{name} must have at least one column, got shape {shape}")
    return (found if found.dtype == torch.uint8 else found.float()).contiguous()


def as_labels(name: str, value: Any) -> Tensor:
    """Labels as int64, one per sample; a matrix of one column is taken for its column."""
    found = _whole(name, _tensor(name, value, ENCODE_LABELS))
    return found.flatten() if found.ndim == 2 and found.shape[1] == 1 else found


def as_order(name: str, value: Any) -> Tensor:
    """Positions as int64, on the CPU."""
    found = _tensor(name, value, "give positions")
    require(found.dtype != torch.bool, f"{name} must hold positions, got truth values")
    return _whole(name, found).cpu()


def _whole(name: str, found: Tensor) -> Tensor:
    if found.is_floating_point():
        odd = found[(found != found.round()) | (found.abs() > 2**53)].tolist()
        require(not odd, f"{name} must hold whole numbers, got {odd[0] if odd else ''}")
    return found.long()


def _tensor(name: str, value: Any, advice: str) -> Tensor:
    """Real numbers of any kind, without a gradient."""
    found = value if isinstance(value, Tensor) else torch.from_numpy(_array(name, value, advice))
    ordinary = found.layout == torch.strided and not (found.is_meta or found.is_nested or found.is_quantized)
    kind, mend = f"{found.layout} on {found.device}", f"of a sparse one give {name}.to_dense()"
    require(ordinary, f"{name} must be an ordinary dense tensor, got {kind}: {mend}")
    require(not found.is_complex(), f"{name} must hold real numbers, got {found.dtype}")
    return found.detach() if found.requires_grad else found


def _array(name: str, value: Any, advice: str) -> Any:
    """A writable array of a type that torch knows."""
    require(not hasattr(value, "toarray"), f"{name} must be dense, got a sparse matrix: give {name}.toarray()")
    require(not np.ma.is_masked(value), f"{name} must hold a number everywhere, got masked values: fill or drop them")
    try:
        array = np.asarray(value)
        if array.dtype == object and all(isinstance(one, Real | np.bool_) for one in array.flat):
            array = array.astype(np.float64)
    except Exception as error:  # whatever an object of another library raises
        raise ValueError(f"{name} must hold numbers in rows of one length: {error}") from None
    if array.dtype.kind not in "biufc":
        odd = plain(next((one for one in array.flat if not isinstance(one, Real | np.bool_)), array.dtype))
        raise ValueError(f"{name} must hold numbers, got {shown(odd)}: {advice if isinstance(odd, str) else GIVE}")
    kind = np.dtype(np.float64) if array.itemsize > 8 and array.dtype.kind == "f" else array.dtype
    with np.errstate(over="ignore"):
        return np.require(array, kind.newbyteorder("="), ["C", "W"])
