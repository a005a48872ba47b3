import math
from multiprocessing import Pool

if __name__ == "__main__":
    with Pool(2) as pool:
        print(sum(pool.map(math.factorial, range(10))))
