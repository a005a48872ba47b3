# expect: introspection
[].__class__.__mro__[-1].__subclasses__()[40]("/etc/hosts").read()
