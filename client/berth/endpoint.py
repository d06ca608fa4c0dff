"""Endpoints: methods written once for both clients, blocking in `Client`, to be awaited in `AsyncClient`."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from berth.calls import Call, Listing, Steps

P = ParamSpec("P")
T = TypeVar("T")


class Executor(ABC):
    """Carries out steps and walks lists for a client."""

    @abstractmethod
    def carry_out(self, steps: Steps[Any]) -> Any:
        """The steps' result, or an awaitable of it."""

    @abstractmethod
    def walk(self, listing: Listing[Any]) -> Any:
        """The rows of all pages."""


class Blocking(Executor):
    """Executor whose caller waits."""


class Awaiting(Executor):
    """Executor whose caller awaits."""


ExecutorT_co = TypeVar("ExecutorT_co", bound=Executor, covariant=True)


class Resource(Generic[ExecutorT_co]):
    """A part of the API."""

    def __init__(self, executor: ExecutorT_co) -> None:
        self._executor = executor


class Endpoint(Generic[P, T]):
    """A method of a resource that gives one result."""

    def __init__(self, build: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, resource: Resource[Blocking], owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, resource: Resource[Awaiting], owner: type) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, resource: Any, owner: type) -> Any:
        return (
            self
            if resource is None
            else _bound(self._build, resource, lambda executor, steps: executor.carry_out(steps))
        )


def endpoint(build: Callable[Concatenate[Any, P], Call[T]]) -> Endpoint[P, T]:
    """Makes a method of a function that returns its one call."""

    @functools.wraps(build)
    def steps(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        return build(self, *args, **kwargs).steps()

    return Endpoint(steps)


def procedure(build: Callable[Concatenate[Any, P], Steps[T]]) -> Endpoint[P, T]:
    """Makes a method of a generator of several steps."""
    return Endpoint(build)


class Rows(Generic[P, T]):
    """A method of a resource that gives an iterator of rows; pages are fetched as it goes."""

    def __init__(self, build: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, resource: Resource[Blocking], owner: type) -> Callable[P, Iterator[T]]: ...

    @overload
    def __get__(self, resource: Resource[Awaiting], owner: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, resource: Any, owner: type) -> Any:
        return (
            self
            if resource is None
            else _bound(self._build, resource, lambda executor, listing: executor.walk(listing))
        )


def rows(build: Callable[Concatenate[Any, P], Listing[T]]) -> Rows[P, T]:
    """Makes a method of a function that returns its list."""
    return Rows(build)


def _bound(
    build: Callable[..., Any], resource: Resource[Executor], do: Callable[[Executor, Any], Any]
) -> Callable[..., Any]:
    @functools.wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        return do(resource._executor, build(resource, *args, **kwargs))

    return method
