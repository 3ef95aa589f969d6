"""Random functions over containers of texts, which own what they hold; see :mod:`container_kit`."""

from __future__ import annotations

from collections.abc import Iterator

from container_kit import Writer


class TextWriter(Writer):
    """As :class:`Writer`, of texts: they come and go, are copied from one container to another, and are replaced."""

    def text(self, depth: int = 1) -> str:
        leaves = ["r.t", "r.t", self.pick("'a'", "'bb'", "'ß日'", "''"), "state.name"]
        if depth <= 0:
            return str(self.random.choice(leaves))
        i, t = (lambda: self.int_(0)), (lambda: self.text(depth - 1))
        return str(
            self.pick(
                *leaves,
                f"state.ts[{i()}]",
                "state.ts[-1]",
                f"state.td[{i()}]",
                "state.tr[0].a",
                "state.tp[-1][0]",
                f"state.nt.get({i()}, {t()})",
                f"state.nt[{i()}]",
                f"state.tt[{t()}].a",
                "min(state.ts)",
                f"max(state.ts, default={t()})",
                "max(state.tr, key=lambda p: p.n).a",
                f"({t()} + {t()})",
                f"{t()}[1:]",
            )
        )

    def int_(self, depth: int = 1) -> str:
        if depth <= 0 or self.random.random() < 0.5:
            return super().int_(depth)
        t = lambda: self.text(depth - 1)  # noqa: E731
        return str(
            self.pick(
                "len(state.ts)",
                "len(state.dt)",
                f"state.dt.get({t()}, 3)",
                f"state.dt[{t()}]",
                f"state.dt.setdefault({t()}, 5)",
                f"state.ts.count({t()})",
                f"state.ts.index({t()})",
                f"len({t()})",
                "sum(v for v in state.dt.values())",
                "sum(len(v) for v in state.ts)",
                "sum(len(k) * v for k, v in state.dt.items())",
                "sum(len(v) for v in state.nt.values())",
                "sum(p.n for p in state.tr)",
                f"bisect.bisect_left(state.ts, {t()})",
                "len(state.ts[-2:])",
            )
        )

    def bool_(self) -> str:
        t = self.text
        return str(
            self.pick(
                super().bool_(),
                f"{t()} in state.ts",
                f"{t()} not in state.dt",
                f"{t()} in state.tt",
                f"({t()}, {self.int_(0)}) in state.tp",
                f"{t()} < {t()}",
                "state.ts",
                "len(state.td) == 3",
                "any(state.ts)",
                "state.tr[0].b is None",
            )
        )

    def change(self) -> str:
        i, t = self.int_, self.text
        return str(
            self.pick(
                *[f"state.ts.append({t()})"] * 4,
                *[f"state.td.append({t()})"] * 3,
                f"state.td.appendleft({t()})",
                "state.td.pop()",
                "state.td.popleft()",
                f"state.td[{i()}] = {t()}",
                "state.td.clear()",
                f"state.ts.pop({i()})",
                "state.ts.pop()",
                f"state.ts.insert({i()}, {t()})",
                f"state.ts.remove({t()})",
                "state.ts.reverse()",
                "state.ts.sort()",
                "state.ts.sort(key=lambda v: len(v))",
                "state.ts.sort(reverse=True)",
                f"state.ts.extend([{t()}, {t()}])",
                "state.ts.extend(state.td)",
                "state.ts.extend(state.ts)",
                "state.td.extend(state.ts)",
                "state.ts.clear()",
                f"state.ts[{i()}] = {t()}",
                f"state.ts[{i()}] = state.ts[{i()}]",
                f"state.ts[{i()}] += 'y'",
                f"del state.ts[{i()}]",
                f"del state.ts[:{i()}]",
                f"del state.ts[{i()}:{i()}]",
                "state.ts = state.ts[-3:]",
                "state.ts = []",
                f"state.ts = [{t()}, {t()}]",
                "state.ts = sorted(state.ts)",
                "state.ts = [v + 'z' for v in state.ts if len(v) < 6]",
                "state.ts = list(state.dt)",
                "state.ts = list(state.nt.values())",
                "state.ts = [*state.ts, r.t][-4:]",
                "state.ts = state.ts[1:] + [r.t] + state.ts[:1]",
                "state.td = deque(state.ts, maxlen=3)",
                "state.ts = list(r.t)",
                "state.ts.append(state.ts.pop(0))",
                "state.ts.append(state.td.popleft())",
                f"heapq.heappush(state.ts, {t()})",
                "heapq.heappop(state.ts)",
                f"heapq.heapreplace(state.ts, {t()})",
                f"heapq.heappushpop(state.ts, {t()})",
                f"heapq.heappush(state.tp, ({t()}, {i()}))",
                "state.name = heapq.heappop(state.tp)[0]",
                f"bisect.insort(state.ts, {t()})",
                *[f"state.dt[{t()}] = {i()}"] * 3,
                *[f"state.dt[{t()}] = state.dt.get({t()}, 0) + 1"] * 2,
                f"state.dt[{t()}] += 1",
                f"del state.dt[{t()}]",
                f"state.dt.pop({t()})",
                f"state.dt.pop({t()}, 0)",
                "state.dt.clear()",
                "state.dt = {}",
                "state.dt = state.dt.copy()",
                *[f"state.nt[{i()} % 9] = {t()}"] * 2,
                f"state.name = state.nt.pop({i()}, 'q')",
                "state.nt.clear()",
                f"state.tt[{t()}] = Named({t()}, None, {i()})",
                f"state.tt[{t()}] = Named({t()}, {t()}, {i()})",
                f"del state.tt[{t()}]",
                f"state.tr.append(Named({t()}, None, {i()}))",
                f"state.tr.append(Named({t()}, {t()}, {i()}))",
                "state.tr.pop(0)",
                "state.tr = state.tr[-2:]",
                "state.tr.sort(key=lambda p: (p.n, p.a))",
                f"state.tr.append(state.tt[{t()}])",
                f"state.tp.append(({t()}, {i()}))",
                "state.tp = sorted(state.tp)[:3]",
                f"state.name = {t()}",
            )
        )

    def statements(self, depth: int) -> Iterator[str]:
        if self.random.random() < 0.85 or not depth:
            yield self.change()
            return
        head, line = self.pick(
            ("vt in state.ts", "total += len(vt)"),
            ("vt in state.ts[:3]", "state.td.append(vt)"),
            ("vt in list(state.dt)", "state.ts.append(vt)"),
            ("kt, nt in state.dt.items()", "state.name = kt"),
            ("vt in state.td", "state.ts.append(vt)"),
            ("pt in state.tr", "state.ts.append(pt.a)"),
        )
        yield f"for {head}:"
        yield f"    {line}"
        yield f"    {self.pick('break', 'pass', 'total += 1')}"
