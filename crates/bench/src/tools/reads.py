"""Inside a sandbox: calls that return pages. `plan` is set by the benchmark."""

import time

from servers.bench import page

each = []


def calls(count):
    first = time.time_ns() // 1_000_000 % 1_000_000_000
    for number in range(first, first + count):
        begun = time.perf_counter_ns()
        answer = page(kind=plan["text"], number=number)
        each.append((time.perf_counter_ns() - begun) / 1e3)
        text = answer if isinstance(answer, str) else answer["result"]
        if len(text) < 90_000:
            raise ValueError(f"a page of {len(text)} characters")


calls(plan["warm_up"])
each.clear()
begun = time.perf_counter_ns()
calls(plan["calls"])
result = {"each": each, "total": (time.perf_counter_ns() - begun) / 1e3}
