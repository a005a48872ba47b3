"""Creates the world of the tasks in the current folder: files, a database, a repository and a memory.

The output is always the same: it depends on neither time nor chance.
"""

import csv
import json
import os
import sqlite3
import subprocess
from pathlib import Path

CITIES = ["Lisbon", "Oslo", "Kyoto", "Lima", "Perth", "Accra", "Turin", "Quito", "Osaka", "Delhi"]
FIRST = ["Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jun", "Kai", "Lea", "Max", "Nia", "Oli", "Pia"]
LAST = ["Abe", "Brook", "Cole", "Duarte", "Eriksen", "Fujita", "Garcia", "Holm", "Ito", "Jensen", "Khan", "Lund", "Moss"]
SERVICES = ["billing", "search", "mail", "auth", "stock", "gateway"]
TIERS = ["free", "basic", "pro"]


def numbers(seed):
    """Yield pseudo-random integers."""
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


def pick(chance, items):
    return items[next(chance) % len(items)]


def customers(count):
    chance = numbers(1)
    for number in range(1, count + 1):
        first, last = pick(chance, FIRST), pick(chance, LAST)
        mail = f"{first}.{last}{number}@example.org".lower()
        yield number, f"{first} {last}", mail, pick(chance, CITIES), pick(chance, TIERS)


def make_database():
    chance = numbers(2)
    with sqlite3.connect("office.db") as database:
        database.execute("create table customers (id integer primary key, name text, mail text, city text, tier text)")
        database.executemany("insert into customers values (?, ?, ?, ?, ?)", customers(200))
        database.execute("create table products (id integer primary key, name text, price integer)")
        products = [(n, f"{pick(chance, CITIES)} lamp no. {n}", 500 + next(chance) % 9500) for n in range(1, 41)]
        database.executemany("insert into products values (?, ?, ?)", products)
        database.execute(
            "create table orders (id integer primary key, customer integer, product integer, quantity integer,"
            " cents integer, day text, status text)"
        )
        for number in range(1, 2001):
            product = pick(chance, products)
            quantity = 1 + next(chance) % 5
            day = f"2026-{1 + next(chance) % 6:02}-{1 + next(chance) % 28:02}"
            status = pick(chance, ["paid", "paid", "paid", "open", "returned"])
            row = (number, 1 + next(chance) % 200, product[0], quantity, product[2] * quantity, day, status)
            database.execute("insert into orders values (?, ?, ?, ?, ?, ?, ?)", row)
    database.close()


def make_logs():
    chance = numbers(3)
    Path("logs").mkdir()
    for day in range(1, 9):
        lines = []
        for line in range(360):
            level = pick(chance, ["INFO"] * 12 + ["WARN"] * 3 + ["ERROR"])
            service, took = pick(chance, SERVICES), next(chance) % 3000
            time = f"2026-03-{day:02}T{line // 15:02}:{line % 15 * 4 + next(chance) % 4:02}:{next(chance) % 60:02}Z"
            lines.append(f"{time} {level} {service} request {next(chance) % 65536:04x} customer={1 + next(chance) % 200} took {took} ms")
        Path(f"logs/day-{day}.log").write_text("\n".join(lines) + "\n")


def make_files():
    chance = numbers(4)
    Path("notes").mkdir()
    for number in range(1, 13):
        owner = pick(chance, FIRST)
        lines = [f"# Meeting {number}", "", f"Led by {owner}. We spoke about {pick(chance, SERVICES)} and what comes next.", ""]
        for item in range(4):
            mark = "x" if next(chance) % 2 else " "
            lines.append(f"- [{mark}] {pick(chance, ['Call', 'Write to', 'Meet', 'Thank'])} {pick(chance, FIRST)} {pick(chance, LAST)} about item {number}.{item + 1}")
        path = Path(f"notes/meeting-{number:02}.md")
        path.write_text("\n".join(lines) + "\n")
        moment = 1_760_000_000 + (number * 7 % 13) * 86_400
        os.utime(path, (moment, moment))
    Path("config").mkdir()
    for place, service in enumerate(SERVICES):
        settings = {
            "name": service, "port": 8000 + place, "replicas": 1 + place % 3, "timeout_seconds": 5 * (1 + place % 4),
            "log_level": ["debug", "info", "warn"][place % 3], "owner": f"{FIRST[place]} {LAST[place]}",
            "features": {"cache": place % 2 == 0, "tracing": place % 3 == 0, "beta": place == 4},
        }
        Path(f"config/{service}.json").write_text(json.dumps(settings, indent=2) + "\n")
    Path("data").mkdir()
    with open("data/customers.csv", "w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["id", "name", "mail", "city", "tier"])
        for number, name, mail, city, tier in customers(230):
            if number % 23 == 0:
                city = CITIES[(CITIES.index(city) + 1) % len(CITIES)]
            writer.writerow([number, name, mail, city, tier])
    with open("data/parts.csv", "w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["part", "label", "weight"])
        writer.writerows((n, f"part {n} of kit {n % 17}", next(chance) % 5000) for n in range(1, 501))
    Path("inbox").mkdir()
    for number in range(1, 25):
        Path(f"inbox/scan_{number:03}.txt").write_text(f"Invoice {1000 + number}\nTotal: {next(chance) % 900 + 100} EUR\n")
    Path("out").mkdir()


def make_repository():
    chance = numbers(5)
    Path("repo/src").mkdir(parents=True)
    people = [("Ada", "ada"), ("Bo", "bo"), ("Cleo", "cleo"), ("Dan", "dan")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*words, **variables):
        none = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "-C", "repo", *words], check=True, env=kept | none | variables, stdout=subprocess.DEVNULL)

    git("init", "--quiet", "--initial-branch=trunk")
    for number in range(1, 61):
        service = pick(chance, SERVICES)
        with open(f"repo/src/{service}.py", "a") as opened:
            for line in range(2 + next(chance) % 30):
                opened.write(f"def step_{number}_{line}(value):\n    return value * {next(chance) % 97} + {line}\n\n\n")
        name, mail = people[min(next(chance) % 6, 3)]
        who = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", name), ("EMAIL", f"{mail}@example.org"), ("DATE", f"{1_767_000_000 + number * 40_000} +0000"))
        }
        kind = pick(chance, ["Fix", "Add", "Speed up", "Tidy"])
        git("add", ".", **who)
        git("commit", "--quiet", "--no-gpg-sign", "-m", f"{kind} {service}: step {number}", **who)
    with open("repo/src/mail.py", "a") as opened:
        opened.write("LAST = True\n")


def make_memory():
    chance = numbers(6)
    zones = ["Asia/Tokyo", "Asia/Kolkata", "Asia/Dubai", "Africa/Accra", "America/Lima"]
    lines = []
    for number in range(60):
        name = f"{FIRST[number % 16]}_{LAST[number % 13]}"
        observations = [
            f"lives in {pick(chance, CITIES)}", f"time zone {zones[number % 5]}", f"customer number {3 * number + 1}",
            f"joined in {2010 + next(chance) % 15}", f"speaks about {pick(chance, SERVICES)} and {pick(chance, SERVICES)}",
        ]
        lines.append({"type": "entity", "name": name, "entityType": "person", "observations": observations})
    for service in SERVICES:
        lines.append({"type": "entity", "name": service, "entityType": "project", "observations": [f"the {service} service"]})
    for number in range(60):
        name = f"{FIRST[number % 16]}_{LAST[number % 13]}"
        for _ in range(1 + next(chance) % 2):
            lines.append({"type": "relation", "from": name, "to": pick(chance, SERVICES), "relationType": "works_on"})
    Path("memory.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


make_database()
make_logs()
make_files()
make_repository()
make_memory()
