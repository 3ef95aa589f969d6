"""Every error Thalweg raises on purpose, so that callers can catch by meaning.

::

    ThalwegError
    ├── BuildError              the flow is wrong: found while it is built, before any row is read
    │   └── SchemaError         a record, state or column type does not fit
    ├── CompileRefused          compile="require" and the function cannot be compiled
    ├── DataError               a row does not fit, and the policy is errors="fail"
    │   └── OperatorError       a user's function raised on a row
    ├── CheckpointError         the checkpoint cannot be used as asked
    │   └── CheckpointMismatch  it belongs to another flow, or the flow changed
    ├── SchedulingError         a scheduling policy gave what cannot be a schedule
    ├── EnvironmentProblem      the machine lacks something (Java, a writable folder, a peer, …)
    └── SourceClosed            push() into a source whose run is over

Messages say where, what was expected, what came and what to do, in that order, in at most ten lines.
"""

from __future__ import annotations


class ThalwegError(Exception):
    """Root of all errors that Thalweg raises on purpose."""


class BuildError(ThalwegError):
    """A flow is put together wrongly; raised by the call that is wrong."""


class SchemaError(BuildError):
    """A record, a state class or the columns of an input have a type that does not fit."""


class CompileRefused(BuildError):
    """``compile="require"`` was asked for a function that can only be interpreted."""


class DataError(ThalwegError):
    """A row of the input does not fit its record and the source says ``errors="fail"``."""


class OperatorError(DataError):
    """A user's function raised on a row and its operator says ``errors="fail"``.

    Attributes:
        operator: the operator's name.
        row: the row as the function saw it, as text.
    """

    def __init__(self, message: str, *, operator: str = "", row: str = "") -> None:
        super().__init__(message)
        self.operator = operator
        self.row = row

    def __reduce__(self) -> tuple[object, ...]:
        return (_operator_error, (str(self), self.operator, self.row))


def _operator_error(message: str, operator: str, row: str) -> OperatorError:
    return OperatorError(message, operator=operator, row=row)


class CheckpointError(ThalwegError):
    """A checkpoint cannot be read or written as asked."""


class CheckpointMismatch(CheckpointError):
    """The checkpoint was written by another flow, or the flow changed in a way that loses state."""


class SchedulingError(ThalwegError):
    """A scheduling policy raised, or what it gave is no schedule of the operators.

    Attributes:
        policy: the policy's name.
        operator: the operator's name, where it is about one.
    """

    def __init__(self, message: str, *, policy: str = "", operator: str = "") -> None:
        super().__init__(message)
        self.policy = policy
        self.operator = operator

    def __reduce__(self) -> tuple[object, ...]:
        return (_scheduling_error, (str(self), self.policy, self.operator))


def _scheduling_error(message: str, policy: str, operator: str) -> SchedulingError:
    return SchedulingError(message, policy=policy, operator=operator)


class EnvironmentProblem(ThalwegError):
    """The machine lacks something that Thalweg needs."""


class SourceClosed(ThalwegError):
    """A row was pushed into a source that was closed, or whose run is over."""


def missing_package(who_needs: str, package: str, extra: str) -> EnvironmentProblem:
    """The error of a package that is not installed.

    Args:
        who_needs: the beginning of the message, such as ``"Kafka needs"``.
        package: its name.
        extra: the one of Thalweg's that brings it.
    """
    return EnvironmentProblem(f"{who_needs} the package {package}: pip install 'thalweg[{extra}]'")
