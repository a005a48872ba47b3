import requests

try:
    print(requests.get("https://example.org/data.json", timeout=5).json())
except requests.exceptions.RequestException as error:
    print("no network:", type(error).__name__)
