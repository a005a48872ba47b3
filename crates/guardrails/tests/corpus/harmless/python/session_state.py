try:
    runs += 1
except NameError:
    runs = 1
print("run", runs)
