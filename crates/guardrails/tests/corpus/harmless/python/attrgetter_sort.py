from operator import attrgetter, itemgetter

rows = [{"name": "b", "n": 2}, {"name": "a", "n": 3}]
print(sorted(rows, key=itemgetter("n"), reverse=True))
print(attrgetter("year")(__import__("datetime").date(2024, 1, 1)))
