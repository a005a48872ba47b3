import pandas as pd

frame = pd.read_json("points.json")
for column in frame.columns:
    print(column, getattr(frame[column], "dtype"), getattr(frame, column).nunique())
