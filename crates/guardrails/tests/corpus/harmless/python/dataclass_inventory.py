from dataclasses import asdict, dataclass, field

@dataclass(order=True)
class Item:
    price: float
    name: str = field(compare=False)
    tags: list[str] = field(default_factory=list, compare=False)

items = [Item(3.5, "pen"), Item(1.2, "clip", ["office"])]
result = [asdict(item) for item in sorted(items)]
