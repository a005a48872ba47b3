from concurrent.futures import ThreadPoolExecutor

def count(path):
    with open(path, errors="replace") as file:
        return path, sum(1 for _ in file)

with ThreadPoolExecutor(max_workers=4) as pool:
    print(dict(pool.map(count, ["a.txt", "b.txt"])))
