"""Copy a spreadsheet of customers into the database of a CRM. Neither the model nor this program sees their data."""

import csv
import io
import re

from servers.crm import create_table, write_query
from servers.files import read_text_file

text = read_text_file(path="customers.csv")["content"]
customers = list(csv.DictReader(io.StringIO(text), delimiter=";"))
columns = ", ".join(f"{name} TEXT" for name in customers[0])
create_table(query=f"CREATE TABLE customers ({columns})")
for customer in customers:
    # The values are tokens. The server gets what they stand for.
    values = ", ".join(f"'{value}'" for value in customer.values())
    write_query(query=f"INSERT INTO customers VALUES ({values})")

names = {customer["full_name"] for customer in customers}
print(f"{len(customers)} customers with {len(names)} different names")
for name, value in customers[0].items():
    print(f"{name}: {re.sub('_[0-9a-f]{16}]', '_…]', value)}")
