"""Functions and classes as backends of a pipeline in this process."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, TypeVar, overload

_Marked = TypeVar("_Marked", bound=Callable[..., Any])
_OPTIONS = ("instances", "batch_size_max", "batch_delay_us_max", "queue_max", "queue_bytes_max", "inline_us_max")


@overload
def backend(marked: _Marked, /) -> _Marked: ...
@overload
def backend(
    *,
    instances: int | None = None,
    batch_size_max: int | None = None,
    batch_delay_us_max: int | None = None,
    queue_max: int | None = None,
    queue_bytes_max: int | None = None,
    inline_us_max: int | None = None,
) -> Callable[[_Marked], _Marked]: ...
def backend(marked: Any = None, /, **options: int | None) -> Any:
    """Marks a function or class as a backend, and returns it as it is.

    A function takes a batch: a list with the value of each request, or with a dict for each where its stage has `inputs`. It returns a
    list of as many results. One that is an `Exception` fails its request alone; what is raised fails the batch.

        @millpond.backend
        def lengths(batch):
            return [len(text) for text in batch]

    Of a class, an object is made for each of `instances`, on the thread that then calls it, or its method `forward`, with every batch.
    The options are those of a model's section in the configuration, where they may stand as well; the section's come first.
    """
    unknown = sorted(options.keys() - set(_OPTIONS))
    if unknown:
        raise TypeError(f"backend() has no option {', '.join(unknown)}; expected some of {', '.join(_OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"backend(): {name} is {reprlib.repr(value)}; expected an int")

    def mark(marked: Any) -> Any:
        if not callable(marked):
            found = f"{reprlib.repr(marked)}, a {type(marked).__name__}"
            raise TypeError(f"a backend is a function or a class; found {found}; options have names, as in batch_size_max=8")
        if isinstance(marked, type) and not any({"__call__", "forward"} & vars(base).keys() for base in marked.__mro__):
            raise TypeError(f"class {marked.__name__} has neither __call__ nor forward(batch)")
        try:
            marked.__millpond_backend__ = dict(given)
        except (AttributeError, TypeError):
            raise TypeError(f"{marked!r} cannot be marked: it takes no attributes; call it in a function of your own") from None
        return marked

    return mark if marked is None else mark(marked)
