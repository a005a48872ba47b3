# expect: dynamic-code
@exec
def run():
    return "print(1)"
