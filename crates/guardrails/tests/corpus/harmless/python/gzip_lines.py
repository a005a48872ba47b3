import gzip

with gzip.open("access.log.gz", "rt") as lines:
    print(sum(1 for line in lines if " 500 " in line))
