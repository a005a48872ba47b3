# expect: call
__import__("subprocess").getoutput("id")
