import numpy as np
from scipy.optimize import curve_fit

def model(t, a, b):
    return a * np.exp(-b * t)

t = np.arange(0, 5, 0.1)
parameters, _ = curve_fit(model, t, model(t, 2.5, 1.3))
result = parameters.tolist()
