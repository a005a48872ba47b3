exec("""
total = 0
for number in range(10):
    total += number
""")
print(total)
