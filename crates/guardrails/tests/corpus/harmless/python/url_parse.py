from urllib.parse import parse_qs, urlencode, urlsplit

parts = urlsplit("https://example.org/search?q=boats&page=2")
print(parts.hostname, parse_qs(parts.query), urlencode({"q": "a b"}))
