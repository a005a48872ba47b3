# expect: introspection
kinds = getattr(object, "__subcl" + "asses__")()
print(kinds[100])
