code = compile(load_skill("clean"), "clean", "exec")
exec(code)
