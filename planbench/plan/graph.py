"""The graph of a plan: order, levels, cycles and ancestors, without recursion."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_BATCH: Final = 1024  # bits a set of ancestors takes at once


def dependents(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Turn ``{node: what it needs}`` round; needs that are no node are left out."""
    out: dict[str, list[str]] = {node: [] for node in needs}
    for node, needed in needs.items():
        for need in dict.fromkeys(needed):
            if need in out:
                out[need].append(node)
    return out


def order(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Give the nodes in a stable order in which each comes after what it needs.

    Nodes on a cycle, and behind one, are left out.
    """
    kids = dependents(needs)
    unmet = {node: len({n for n in needed if n in needs}) for node, needed in needs.items()}
    ready = deque(node for node, count in unmet.items() if not count)
    found = []
    while ready:
        node = ready.popleft()
        found.append(node)
        for kid in kids[node]:
            unmet[kid] -= 1
            if not unmet[kid]:
                ready.append(kid)
    return found


def levels(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Group the nodes by depth: a node is one level below the deepest that it needs."""
    depth: dict[str, int] = {}
    for node in order(needs):
        depth[node] = 1 + max((depth[n] for n in needs[node] if n in depth), default=-1)
    rows: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for node, row in depth.items():
        rows[row].append(node)
    return rows


def cycles(needs: Mapping[str, Sequence[str]], limit: int = 10) -> list[list[str]]:
    """Name cycles, each as ``[a, b, a]`` in the direction of the data; at most one a node."""
    sorted_out = set(order(needs))
    left = {
        n: [m for m in needed if m in needs and m not in sorted_out]
        for n, needed in needs.items()
        if n not in sorted_out
    }
    found: list[list[str]] = []
    seen: set[str] = set()
    for start in left:
        if start in seen:
            continue
        position: dict[str, int] = {}
        trail: list[str] = []
        node = start
        while node not in seen and node not in position:
            position[node] = len(trail)
            trail.append(node)
            if not left[node]:
                break
            node = left[node][0]
        else:
            if node in position:
                loop = trail[position[node] :]
                loop.reverse()
                first = min(range(len(loop)), key=lambda i: loop[i])
                loop = loop[first:] + loop[:first]
                found.append([*loop, loop[0]])
        seen.update(trail)
        if len(found) >= limit:
            break
    return found


class Ancestry:
    """Answers whether a node is upstream of another; each node's answer is made once, on demand."""

    def __init__(self, needs: Mapping[str, Sequence[str]]) -> None:
        self._needs = needs
        self._known: dict[str, set[str]] = {}

    def of(self, node: str) -> set[str]:
        """Give all nodes that are upstream of this one, itself left out."""
        if node not in self._known:
            found: set[str] = set()
            stack = list(self._needs.get(node, ()))
            while stack:
                current = stack.pop()
                if current not in found:
                    found.add(current)
                    stack.extend(self._needs.get(current, ()))
            found.discard(node)
            self._known[node] = found
        return self._known[node]

    def is_upstream(self, node: str, other: str) -> bool:
        """Whether ``other`` has always ended before ``node`` starts."""
        direct = self._needs.get(node, ())
        return other in direct or other in self.of(node)


def not_upstream(
    needs: Mapping[str, Sequence[str]], pairs: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Give the pairs (node, other) where ``other`` may still run when ``node`` starts.

    All pairs are answered together, so that many guards cost a few walks over the plan
    and not one walk each. Every name must be a node of the plan.
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    for node, other in dict.fromkeys(pairs):
        if other not in needs[node]:
            wanted[other].append(node)
    found: set[tuple[str, str]] = set()
    others = list(wanted)
    walk = order(needs) if others else []
    rounds = 1
    if len(walk) < len(needs) and others:
        walk += _around_cycles(needs, set(walk))
        rounds = 3  # what comes round a cycle is known one round later
    for start in range(0, len(others), _BATCH):
        bits = {other: 1 << i for i, other in enumerate(others[start : start + _BATCH])}
        above = dict.fromkeys(walk, 0)
        for _ in range(rounds):
            for node in walk:
                mask = above[node]
                for need in needs[node]:
                    if need in above:
                        mask |= above[need] | bits.get(need, 0)
                above[node] = mask
        found.update(
            (node, other)
            for other, bit in bits.items()
            for node in wanted[other]
            if node == other or not above[node] & bit
        )
    return found


def _around_cycles(needs: Mapping[str, Sequence[str]], done: set[str]) -> list[str]:
    """Order the nodes on cycles and behind them: each after what it needs, as far as there is an after."""
    found: list[str] = []
    seen = set(done)
    for start in needs:
        stack = [(start, iter(needs[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            rest = stack[-1][1]
            need = next((n for n in rest if n in needs and n not in seen), None)
            if need is None:
                found.append(stack.pop()[0])
            else:
                seen.add(need)
                stack.append((need, iter(needs[need])))
    return found


def width(needs: Mapping[str, Sequence[str]]) -> int:
    """Give the number of nodes on the widest level."""
    return max(map(len, levels(needs)), default=0)


def reachable(starts: Iterable[str], kids: Mapping[str, Sequence[str]]) -> set[str]:
    """Give everything downstream of the starts, themselves left out unless on a cycle."""
    found: set[str] = set()
    stack = [kid for start in starts for kid in kids.get(start, ())]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(kids.get(node, ()))
    return found
