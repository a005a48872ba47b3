# expect: call
eval("__import__('os').system('id')")
