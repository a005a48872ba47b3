import numpy as np

rng = np.random.default_rng(42)
samples = rng.normal(10, 2, size=(1000, 3))
print(np.mean(samples, axis=0), np.cov(samples.T))
result = float(np.linalg.norm(samples[0]))
