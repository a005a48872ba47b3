# expect: introspection
import gc

for one in gc.get_objects():
    if isinstance(one, dict) and "token" in one:
        print(one["token"])
