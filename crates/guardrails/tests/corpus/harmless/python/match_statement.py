def describe(event):
    match event:
        case {"type": "created", "id": int(number)}:
            return f"created {number}"
        case {"type": "moved", "to": [x, y, *rest]}:
            return f"moved to {x}, {y}"
        case str() as text if text.startswith("#"):
            return "comment"
        case _:
            return "unknown"

print([describe(event) for event in ({"type": "created", "id": 1}, "# x", 3)])
