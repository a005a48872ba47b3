import functools
import time

def timed(function):
    @functools.wraps(function)
    def wrapper(*arguments, **options):
        begun = time.perf_counter()
        value = function(*arguments, **options)
        print(function.__name__, round(time.perf_counter() - begun, 3))
        return value
    return wrapper

@timed
@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

print(fibonacci(60))
