import random

random.seed(1)
inside = sum(1 for _ in range(100_000) if random.random() ** 2 + random.random() ** 2 <= 1)
print(4 * inside / 100_000)
