"""Pipelines in this process: waited for, awaited, or begun."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import itertools
import logging
import os
import threading
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from millpond import _native
from millpond._asyncio import _ended
from millpond._errors import Error


class Future(concurrent.futures.Future[Any]):
    """What a call that was begun will give: a `concurrent.futures.Future` that can be awaited as well.

    `cancel` works until the answer is there: no model begins the call any more, and one that runs it already goes on for nobody.
    """

    _errand: _native.Errand | None = None

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if cancelled and self._errand is not None:
            self._errand.abandon()
        return cancelled

    def result(self, timeout: float | None = None) -> Any:
        self._refuse_own_thread()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._refuse_own_thread()
        return super().exception(timeout)

    def _refuse_own_thread(self) -> None:
        """A callback runs on the thread that brings all answers, this one's too."""
        if not self.done() and _results is not None and threading.current_thread() is _results.thread:
            raise Error("a callback of a submitted call waits for another one, whose answer would come on the same thread; give that one a callback")

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()


class _Results:
    """The thread that brings answers to futures: one for each process, started by the first."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.arrivals = _native.Arrivals()
        self.numbers = itertools.count()
        self.waiting: dict[int, Future] = {}
        self.thread = threading.Thread(target=self.deliver, name="millpond-results", daemon=True)
        self.thread.start()

    def deliver(self) -> None:
        import select

        ready = select.poll()
        ready.register(self.arrivals.fileno(), select.POLLIN)
        while True:
            ready.poll()
            for number, given, error in self.arrivals.take():
                future = self.waiting.pop(number, None)
                try:
                    # It may be cancelled meanwhile.
                    if future is not None and future.set_running_or_notify_cancel():
                        future.set_result(given) if error is None else future.set_exception(error)
                except BaseException:
                    # A callback that raises what is no Exception, or a future that its holder has set: the others' answers still come.
                    logging.getLogger("millpond").exception("the answer of a submitted call could not be delivered")
                # Nothing is held for the time until the next answer.
                del future, given, error


_results: _Results | None = None
_starting = threading.Lock()


def _results_of_process() -> _Results:
    global _results
    with _starting:
        if _results is None or _results.pid != os.getpid():
            _results = _Results()
        return _results


def _leave_parent() -> None:
    for descriptor in _native.forget_process():
        os.close(descriptor)


os.register_at_fork(after_in_child=_leave_parent)
atexit.register(_native.end_interpreter)
os.register_at_fork(after_in_child=lambda: globals().update(_starting=threading.Lock()))


class Pipeline(_native.Pipeline):
    """A pipeline of this process: models, functions and stages, called by any number of threads and event loops.

    `config` is a dict, or the path of a TOML file as `millpond serve` reads it, of whose pipelines `pipeline` names one. The dict has
    `stages`, and sections that these name: `models`, `features`, `ordered`, `pipelines`, `onnxruntime`. A stage is a dict with one key that
    says what it does, or with a `backend`: a function or class that `millpond.backend` marked.

        >>> @millpond.backend
        ... def shout(batch):
        ...     return [text.upper() for text in batch]
        >>> with millpond.Pipeline({"stages": {"shout": {"backend": shout}}}) as pipe:
        ...     pipe({"data": "calm"})
        {'shout': b'CALM'}

    `pipe(inputs, *, deadline_ms=None, priority=None)` runs it for a dict of values and returns a dict of outputs, or for a list of such dicts,
    together, and returns the list of theirs. The caller must not write to an array that it passed in until the call has ended.
    """

    def submit(
        self, inputs: dict[str, Any], *, deadline_ms: float | None = None, priority: int | None = None
    ) -> Future:
        """Begins a call and returns its future. The caller must not write to an array that it passed in until the future is done."""
        results = _results_of_process()
        number, future = next(results.numbers), Future()
        results.waiting[number] = future
        try:
            future._errand = self.begin(inputs, deadline_ms, (results.arrivals, number), priority=priority)
        except BaseException:
            results.waiting.pop(number, None)
            raise
        return future

    async def call_async(
        self, inputs: dict[str, Any], *, deadline_ms: float | None = None, priority: int | None = None
    ) -> dict[str, Any]:
        """As a call, awaited: a call that is cancelled is not begun any more."""
        outputs: dict[str, Any] = await _ended(lambda to: self.begin(inputs, deadline_ms, to, priority=priority))
        return outputs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def serve(config: dict[str, Any] | str | os.PathLike[str], *, port: int | None = None) -> _native.Server:
    """Starts a server in this process, and returns it when it is ready; its `address` is where clients connect, and `stop()` ends it.

    `config` is a dict of all that the TOML file may have, whose models and stages may have Python's functions and classes as backends; or the
    path of the file. `port` is the port to listen on, 0 one that is free, which a dict without `server.listen` gets anyway.
    """
    return _native.Server(config, port)
