import tomllib

with open("pyproject.toml", "rb") as file:
    print(tomllib.load(file)["project"]["dependencies"])
