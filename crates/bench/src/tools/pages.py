"""Pages of 100 KB. Each number is another page, so that nothing of it is known from earlier ones."""

FIRST = ["Alice", "Bruno", "Clara", "David", "Elena", "Felix", "Grace", "Hugo", "Irene", "Jonas", "Karen", "Lukas"]
LAST = ["Adler", "Becker", "Clarke", "Duarte", "Evans", "Fischer", "Garcia", "Hansen", "Ivanov", "Jensen", "Keller"]
BYTES = 100_000


def page(kind, number):
    lines, size = [], 0
    state = number * 2654435761 & 0x7FFFFFFF
    while size < BYTES:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        part = state >> 8
        if kind == "customers":
            first, last = FIRST[part % 12], LAST[part // 12 % 11]
            line = (
                f'{{"id": {state}, "full_name": "{first} {last}", "email": "{first.lower()}.{last.lower()}{part % 9973}@example.org",'
                f' "phone": "+1 415-{200 + part % 700}-{part % 10000:04}", "status": "active", "total": {part % 99999 / 100},'
                f' "note": "renewed the contract for another year, no open tickets"}}'
            )
        else:
            line = (
                f"2026-11-19T01:{part % 60:02}:{part // 60 % 60:02}Z info worker={part % 64} job={state:08x} finished in"
                f" {part % 997} ms, {part % 89} items written, queue depth {part % 41}"
            )
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)
