import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 2 * np.pi, 200)
figure, axes = plt.subplots(figsize=(8, 4))
axes.plot(x, np.sin(x), label="sin")
axes.plot(x, np.cos(x), label="cos")
axes.legend()
figure.savefig("/artifacts/waves.png", dpi=150)
