import unicodedata

text = "Caf\u00e9 \u202enaive\u202c"
clean = "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
print(clean.translate({0x202e: None, 0x202c: None}))
