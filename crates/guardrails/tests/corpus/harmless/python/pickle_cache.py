import pickle
from pathlib import Path

cache = Path("cache.pkl")
values = pickle.loads(cache.read_bytes()) if cache.exists() else {}
values["runs"] = values.get("runs", 0) + 1
cache.write_bytes(pickle.dumps(values))
print(values)
