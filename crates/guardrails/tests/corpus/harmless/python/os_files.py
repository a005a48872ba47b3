import os

for folder, _, files in os.walk("/workspace"):
    for name in files:
        path = os.path.join(folder, name)
        if os.path.getsize(path) > 1_000_000:
            print(path)
print(os.getcwd(), os.environ.get("HOME"), os.cpu_count())
