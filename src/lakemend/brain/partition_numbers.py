"""Which files lie in the same partition: a number for each, in one step for all.

`small_files.py`, `health.py` and the maintenance commands ask.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.format import Snapshot


def partition_numbers(snapshot: Snapshot) -> tuple[np.ndarray, pa.StructArray]:
    """Of each file, the number of its partition; and the partitions."""
    found = snapshot.files["partition"]
    if not len(found):
        return np.zeros(0, np.int64), pa.array([], found.type)
    column = found.combine_chunks()
    if not snapshot.metadata.partitioning:
        return np.zeros(len(column), np.int64), column.slice(0, 1)
    codes = [_codes(pc.struct_field(column, i)) for i in range(column.type.num_fields)]
    _, first, numbers = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
    return numbers.reshape(-1), column.take(pa.array(first))


def _codes(values: pa.Array) -> np.ndarray:
    """Equal numbers for values that are the same, bit by bit: 0.0 and -0.0 are two partitions."""
    if pa.types.is_floating(values.type):
        bits = values.fill_null(0).to_numpy(zero_copy_only=False).view(f"i{values.type.bit_width // 8}")
        values = pa.array(bits, mask=values.is_null().to_numpy(zero_copy_only=False))
    return np.asarray(values.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False))
