"""What an adapter need not say: the members of the contract that have a default.

An adapter is a subclass, which overrides them where its library has something better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .._contract import SelectMethod
from .._search import polynomials, subset_law
from ..curves import Curve


class Base:
    """The defaults; `_contract.py` says what each member is."""

    words: ClassVar[dict[str, str]] = {}
    own_rows = in_memory = False
    has_derivatives = True
    promotes = False

    @staticmethod
    def after(value: Any, total: Any) -> Any:
        return value

    @classmethod
    def constant(cls, f: Callable[..., Any], *args: Any) -> Any:
        return cls.program(f, *args)  # type: ignore[attr-defined]

    @staticmethod
    def either(x: Any, unguarded: Any, masked: Callable[..., Any]) -> Any:
        return masked(x)

    @staticmethod
    def exported() -> bool:
        return False

    @staticmethod
    def select_method(x: Any, curve: Curve, check: bool | None) -> SelectMethod:
        return SelectMethod()

    horner = staticmethod(polynomials.horner)

    @staticmethod
    def is_divided(x: Any) -> bool:
        return False

    @staticmethod
    def loss_type(dtype: Any, like: Any) -> Any:
        return dtype

    @staticmethod
    def number(value: Any) -> Any:
        return value

    @staticmethod
    def over_entries(term: Callable[..., Any], entries: Any, numbers: Any) -> Any:
        return tuple([v.sum(-1) for v in _at_all_nodes(term, entries, numbers)])

    @staticmethod
    def over_nodes(term: Callable[..., Any], entries: Any, numbers: Any) -> Any:
        return tuple([v.sum(-2) for v in _at_all_nodes(term, entries, numbers)])

    @staticmethod
    def entrywise(f: Callable[..., Any], *arrays: Any) -> Any:
        return f(*arrays)

    @staticmethod
    def quotient(k: int, x: Any, own: Any, tau: Any) -> Any:
        return None

    @classmethod
    def peak(cls, x: Any) -> Any:
        return cls.max(x, axis=-1)  # type: ignore[attr-defined]

    @classmethod
    def recur(cls, steps: Any, values: Any, back: bool) -> Any:
        size = 1
        for c, s in steps:
            if back:
                same, more = values[..., -size:], c * values[..., size:]
                rest = values[..., :-size]
            else:
                same, more = values[..., :size], c * values[..., :-size]
                rest = values[..., size:]
            rest = more + (rest if s is None else rest + s * more)
            parts = [rest, same] if back else [same, rest]
            values = cls.concat(parts, axis=-1)  # type: ignore[attr-defined]
            size *= 2
        return values

    @staticmethod
    def replicate(value: Any, like: Any, name: str = "") -> Any:
        return value

    @classmethod
    def restore(cls, values: Any, permutation: Any) -> Any:
        return cls.put(cls.zeros_like(values), permutation, values)  # type: ignore[attr-defined]

    @staticmethod
    def stored(value: Any) -> Any:
        return value

    @classmethod
    def subset(cls, *rows: Any) -> Any:
        return cls.program(subset_law.solved_law, *rows)  # type: ignore[attr-defined]

    @staticmethod
    def traced(values: Any, like: Any) -> Any:
        return values

    @classmethod
    def weights(cls, k: int, away: Any, tau: Any) -> Any:
        return polynomials.weights(cls, k, away, tau)  # type: ignore[arg-type]

    @staticmethod
    def in_working_type(x: Any) -> Any:
        return x


def unseen(check: bool | None) -> bool:
    """False, or an error if values that are traced are to be checked."""
    if check:
        raise ValueError(
            "check must be None or False where values are traced or compiled: "
            "they cannot be looked at, got True"
        )
    return False


def _at_all_nodes(term: Callable[..., Any], entries: Any, numbers: Any) -> Any:
    """The terms ``(..., M, n)``."""
    entries = [v[..., None, :] for v in entries]
    return term(*entries, *(v[..., None] for v in numbers))
