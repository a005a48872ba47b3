import pandas as pd
from pandas.api.types import is_numeric_dtype

frame = pd.read_parquet("data.parquet")
numeric = [name for name in frame if is_numeric_dtype(frame[name])]
print(frame[numeric].describe())
