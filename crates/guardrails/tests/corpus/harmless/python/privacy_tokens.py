text = tokenize_pii("Write to ann@example.org")
print(text)
