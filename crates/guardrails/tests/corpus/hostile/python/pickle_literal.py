# expect: obfuscation
import pickle

pickle.loads(b"cos\nsystem\n(S'id'\ntR.")
