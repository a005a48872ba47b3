"""Copy customers from one server to another. Neither the model nor this program sees their data."""

import json

from servers.crm import read_text_file as read_from_crm
from servers.crm import write_file
from servers.files import read_text_file

customers = json.loads(read_text_file(path="customers.json")["content"])
cards = "".join(f"{customer['id']}: {customer['email']}, {customer['phone']}\n" for customer in customers)
write_file(path="customers.txt", content=cards)

hidden = sum(customer["email"].startswith("[EMAIL_") for customer in customers)
# The file has the data itself. What comes back from the server are the same tokens.
is_same = read_from_crm(path="customers.txt")["content"] == cards
print(f"{len(customers)} customers, {hidden} with hidden addresses, stored as they are: {str(is_same).lower()}")
