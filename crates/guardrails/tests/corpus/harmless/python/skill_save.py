save_skill("greet", "def greet(name):\n    return f'Hello, {name}'\n", description="Greets")
print(list_skills())
