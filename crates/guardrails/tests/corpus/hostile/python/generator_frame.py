# expect: introspection
generator = (one for one in [1])
frame = generator.gi_frame.f_back
print(frame.f_builtins)
