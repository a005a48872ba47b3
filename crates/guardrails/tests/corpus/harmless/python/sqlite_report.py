import sqlite3

database = sqlite3.connect("shop.db")
database.row_factory = sqlite3.Row
rows = database.execute("SELECT category, SUM(price) AS total FROM items GROUP BY category").fetchall()
print([dict(row) for row in rows])
