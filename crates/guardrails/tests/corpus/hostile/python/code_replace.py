# expect: introspection
def innocent():
    return 1

innocent.__code__ = innocent.__code__.replace(co_consts=(None, "changed"))
print(innocent())
