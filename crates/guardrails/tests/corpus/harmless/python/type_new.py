Point = type("Point", (), {"x": 0, "y": 0, "norm": lambda self: abs(self.x) + abs(self.y)})
point = Point()
point.x = -3
print(point.norm())
