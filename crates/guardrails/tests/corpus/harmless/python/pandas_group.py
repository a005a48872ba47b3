import pandas as pd

sales = pd.read_csv("sales.csv", parse_dates=["date"])
monthly = sales.groupby([sales["date"].dt.to_period("M"), "region"])["amount"].sum().unstack(fill_value=0)
print(monthly.to_string())
result = monthly.sum().to_dict()
