"""State on disk: segments, commit records and the manifest of a checkpoint. As ``@tw.state`` it declares a state class.

A package and a decorator of one name: the package can be called, so that both ``@tw.state`` and
``import thalweg.checkpoint.inspect`` mean what they say.
"""

from __future__ import annotations

import sys
import types

from thalweg.flow import records


class _Package(types.ModuleType):
    def __call__(self, cls: type) -> type:
        """See :func:`thalweg.flow.records.state`."""
        return records.state(cls)


sys.modules[__name__].__class__ = _Package
