# expect: destructive
:(){ :|:& };:
