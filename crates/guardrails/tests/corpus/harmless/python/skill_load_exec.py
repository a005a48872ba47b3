code = load_skill("normalize")
exec(code)
print(normalize("  Ann  "))
