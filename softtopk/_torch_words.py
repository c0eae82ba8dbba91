"""Two words for one argument: PyTorch's `dim` and this package's `axis`."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def one_of(
    word: str, value: Value, default: Value, alias: str, given: dict[str, Value]
) -> Value:
    """What one of two words names; `given` holds what was called by other names.

    Raises
    ------
    TypeError
        If both words are used, or another one.
    """
    if not given:
        return value
    for name in given:
        if name != alias:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    if value != default:
        raise TypeError(f"{word} and {alias} are one argument: give one")
    return given[alias]
