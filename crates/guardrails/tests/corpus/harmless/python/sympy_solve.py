import sympy as sp

x = sp.symbols("x")
print(sp.solve(x**2 - 5 * x + 6, x))
print(sp.integrate(sp.sin(x) * sp.exp(x), x))
