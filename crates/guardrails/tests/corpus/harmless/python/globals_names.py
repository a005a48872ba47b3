count = 3
print("count" in globals(), globals()["count"], sorted(name for name in dir() if not name.startswith("_")))
