import matplotlib.pyplot as plt
import seaborn as sns

iris = sns.load_dataset("iris", cache=False)
sns.pairplot(iris, hue="species")
plt.show()
