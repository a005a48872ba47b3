import inspect

def area(width: float, height: float = 1.0) -> float:
    """Returns the area."""
    return width * height

print(inspect.signature(area), area.__doc__, area.__annotations__, area.__name__)
print([base.__name__ for base in type(True).__mro__])
