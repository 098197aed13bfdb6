"""The values that references and tests share: tr::test::fill_value in tests/support/op_rig.h."""
import numpy as np

X, PARAM, DY, STATE = 0, 100, 200, 300  # streams of a case are its salt plus these


def fill(shape, salt, scale=1.0, shift=0.0):
    """float32 array of `shape`, row-major: scale * value + shift, in double and rounded once."""
    i = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64)
    u = (i * np.uint64(2654435761) + np.uint64(salt) * np.uint64(40503)).astype(np.uint32)
    u ^= u >> np.uint32(15)
    u = (u.astype(np.uint64) * np.uint64(2246822519)).astype(np.uint32)
    u ^= u >> np.uint32(13)
    value = (u >> np.uint32(8)).astype(np.float64) * 2.0**-24 - 0.5
    return (scale * value + shift).astype(np.float32).reshape(shape)


def recorded(array, most=48):
    """What a reference file keeps of an array: sums, and at most `most` evenly spaced samples."""
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    step = max(1, -(-flat.size // most))
    number = lambda v: float(f"{v:.9g}")
    return {
        "shape": list(np.shape(array)),
        "sum": number(flat.sum()),
        "abs_sum": number(np.abs(flat).sum()),
        "step": step,
        "samples": [number(v) for v in flat[::step]],
    }
