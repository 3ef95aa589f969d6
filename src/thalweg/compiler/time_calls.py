"""Parts of times: the hour, weekday or date of a Timestamp, in UTC or in a zone that the function names."""

from __future__ import annotations

import ast
from typing import Final

from thalweg.compiler.code.names import TIME_PARTS
from thalweg.compiler.code.source import Frozen, table_digest
from thalweg.compiler.containers.expressions import Containers
from thalweg.compiler.kinds import INT
from thalweg.compiler.operations import Expr, an, whole
from thalweg.zones import known_pieces

_ARGUMENTS: Final = ("time", "zone")


class TimeCalls(Containers):
    """Lowers the calls of ``times`` whose result depends on a zone."""

    def _known(self, name: str, node: ast.Call) -> Expr:
        home, _, part = name.partition(".")
        if home != "times" or part not in TIME_PARTS:
            return super()._known(name, node)
        given = self._given(name, node)
        time = self.number(self.needed(self.expression(given["time"])), name)
        if time.type.tag == "float":
            self.refuse(f"calls {name} with {an(time.type)}")
        table = self._zone_table(name, given.get("zone"))
        if part == "date":
            return self._date(table, whole(time))
        local = whole(time) if table is None else f"time_local({table}, {whole(time)})"
        if part == "local":
            return Expr(local, INT)
        self.unit.imports |= {f"time_{part}", "time_local"}
        return Expr(f"time_{part}({local})", INT)

    def _given(self, name: str, node: ast.Call) -> dict[str, ast.expr]:
        given = dict(zip(_ARGUMENTS, node.args, strict=False))
        words = {word.arg: word.value for word in node.keywords if word.arg in _ARGUMENTS}
        count = len(node.args) + len(node.keywords)
        given |= words
        if "time" not in given or len(given) != count:
            self.refuse(f"calls {name} with other arguments than a time and a zone")
        return given

    def _zone_table(self, name: str, node: ast.expr | None) -> str | None:
        """Code of the address of the zone's pieces; None for UTC."""
        if node is None:
            return None
        zone = self.expression(node)
        if zone.is_const and zone.const is None:
            return None
        if not zone.is_const or not isinstance(zone.const, str):
            self.refuse(f"calls {name} with a zone that is no literal or captured text")
        try:
            starts, offsets = known_pieces(zone.const)
        except ValueError as error:
            self.refuse(str(error))
        pairs = list(zip(starts, offsets, strict=True))
        self.unit.imports.add("time_local")
        table = self.table(zone.const, Frozen(pairs, table_digest(pairs)))
        return f"{table.code}[0]"

    def _date(self, table: str | None, time: str) -> Expr:
        if table is None:
            # Its last step may leave 64 bits: Python goes on.
            return Expr(f"mul_int({time} // 86400000000, 86400000000)", INT)
        self.unit.imports.add("time_day_start")
        return Expr(f"time_day_start({table}, {time})", INT)
