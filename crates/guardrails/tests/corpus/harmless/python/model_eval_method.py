class Model:
    def __init__(self):
        self.training = True

    def eval(self):
        self.training = False
        return self

    def compile(self, optimizer):
        self.optimizer = optimizer

model = Model()
model.compile("adam")
model.eval()
print(model.training)
