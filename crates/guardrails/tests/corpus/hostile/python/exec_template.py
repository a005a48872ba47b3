# expect: dynamic-code
column = read_file("column.txt").strip()
exec(f"value = row['{column}']")
