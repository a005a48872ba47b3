from servers.crm import find_customer
from servers.billing import list_invoices

customer = find_customer(email="ann@example.org")
overdue = [one for one in list_invoices(customer=customer["id"]) if one["days_overdue"] > 30]
result = {"customer": customer["name"], "overdue": sum(one["amount"] for one in overdue)}
