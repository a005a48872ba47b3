REGISTRY = {}

class Plugin:
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        REGISTRY[cls.__name__.lower()] = cls

    def run(self, text):
        raise NotImplementedError

class Upper(Plugin):
    def run(self, text):
        return text.upper()

print(REGISTRY["upper"]().run("abc"))
