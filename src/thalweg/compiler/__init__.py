"""Compiles users' per-tuple functions into loops over chunks, or says why it cannot.

The path of a function: ``source`` captures its text and free values on the driver, ``functions`` and
``expressions`` (``calls``, ``text``, ``containers``) turn it into typed code or refuse it, ``stateless`` and
``keyed`` put a kernel around it, ``modules`` writes, imports and compiles the whole under a fingerprint. What
was refused is interpreted, with functions that ``freeze`` has cut off from later changes; ``changed_copies`` tells of
those that change what they captured.
"""

from thalweg.compiler.changed_copies import tell_changed_copies
from thalweg.compiler.code.modules import on_compile
from thalweg.compiler.code.reasons import NotCompilable
from thalweg.compiler.code.source import FunctionSource, describe
from thalweg.compiler.freeze import freeze
from thalweg.compiler.key_function import key_step
from thalweg.compiler.keyed.operator import CompiledKeyed, check_keyed, keyed_kernel
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.compiler.stateless import (
    CompiledChain,
    Step,
    check_stateless,
    stateless_kernel,
)

__all__ = [
    "CompiledChain",
    "CompiledKeyed",
    "FunctionSource",
    "KeyedSpec",
    "NotCompilable",
    "Step",
    "check_keyed",
    "check_stateless",
    "describe",
    "freeze",
    "key_step",
    "keyed_kernel",
    "on_compile",
    "stateless_kernel",
    "tell_changed_copies",
]
