# expect: destructive
r'm' -r"f" /usr
