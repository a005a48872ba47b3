import sqlite3

database = sqlite3.connect(":memory:")
database.executescript("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2);")
cursor = database.cursor()
cursor.execute("SELECT COUNT(*) FROM t")
print(cursor.fetchone()[0])
