import pandas as pd

customers = pd.DataFrame({"id": [1, 2, 3], "name": ["Ann", "Bo", "Cy"]})
orders = pd.DataFrame({"customer": [1, 1, 3], "total": [10.5, 20, 7]})
joined = customers.merge(orders, left_on="id", right_on="customer", how="left")
result = joined.groupby("name").total.sum().sort_values(ascending=False).head(2).to_dict()
