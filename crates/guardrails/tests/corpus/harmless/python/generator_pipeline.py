def read(path):
    with open(path) as file:
        yield from file

def fields(lines):
    for line in lines:
        yield line.rstrip("\n").split("\t")

result = sum(float(row[2]) for row in fields(read("data.tsv")) if len(row) > 2)
