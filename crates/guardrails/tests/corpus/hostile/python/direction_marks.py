# expect: obfuscation
access = "user"
if access != "user‮ ⁦# only admins⁩ ⁦":
    print("You are an admin")
