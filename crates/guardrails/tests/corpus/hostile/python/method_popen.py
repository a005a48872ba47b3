# expect: call
def start(module):
    return module.popen("id").read()

print(start(__import__("o" + "s")))
