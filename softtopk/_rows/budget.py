"""The budget of rows: a whole number and the rest, in two types of numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .namespace import namespace


def of_one_type(a: Any, b: Any) -> tuple[Any, Any]:
    """Two numbers in one type: if one holds integers and the other floats, the floats'.

    NumPy's of 64 bits become that by themselves, and so do those of a library that
    `promotes`.
    """
    xp = namespace(a)
    if xp is np or xp.promotes or not xp.is_array(b):
        return a, b
    if xp.is_floating(a) == xp.is_floating(b):
        return a, b
    if xp.is_floating(a):
        return a, xp.astype(b, a.dtype)
    return xp.astype(a, b.dtype), b


class Budget(NamedTuple):
    """The budget k = whole + part, and the number n of finite entries.

    `whole` and n are exact in rows of any length.  They are integers where floats would
    not be exact: above 2^24, float32 has no odd numbers.
    """

    whole: Any
    part: Any
    n: Any

    def pick(self, index: Any) -> Budget:
        """Of some rows."""
        return Budget(*(v[index] for v in self))

    def without(self, m: Any) -> Any:
        """k - m."""
        whole, m = of_one_type(self.whole, m)
        whole, part = of_one_type(whole - m, self.part)
        return whole + part

    def rest(self) -> Any:
        """n - k."""
        n, whole = of_one_type(self.n, self.whole)
        n, part = of_one_type(n - whole, self.part)
        return n - part

    def mean(self) -> Any:
        """k / n."""
        whole, part = of_one_type(self.whole, self.part)
        k, n = of_one_type(whole + part, self.n)
        return k / n
