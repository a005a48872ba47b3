# expect: introspection
for one in ().__class__.__base__.__subclasses__():
    if one.__name__ == "Popen":
        one(["id"])
