from contextlib import contextmanager, suppress

@contextmanager
def section(title):
    print(f"== {title}")
    try:
        yield
    finally:
        print("==")

with section("numbers"), suppress(ValueError):
    print(int("x"))
