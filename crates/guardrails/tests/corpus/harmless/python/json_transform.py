import json

with open("users.json") as file:
    users = json.load(file)
by_country = {}
for user in users:
    by_country.setdefault(user.get("country", "?"), []).append(user["name"])
print(json.dumps(by_country, indent=2, ensure_ascii=False, sort_keys=True))
