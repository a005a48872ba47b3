class ConfigError(Exception):
    def __init__(self, key):
        super().__init__(f"missing key: {key}")
        self.key = key

def get(config, key):
    try:
        return config[key]
    except KeyError as error:
        raise ConfigError(key) from error

try:
    get({}, "url")
except ConfigError as error:
    import traceback
    traceback.print_exc(limit=1)
    print(error.key)
