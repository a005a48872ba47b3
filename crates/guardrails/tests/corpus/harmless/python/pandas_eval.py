import pandas as pd

frame = pd.DataFrame({"a": range(5), "b": range(5, 10)})
frame.eval("c = a * b", inplace=True)
print(frame.query("c > 10").shape)
