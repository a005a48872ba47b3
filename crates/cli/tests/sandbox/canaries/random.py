import os
import random
import secrets
import ssl
import tempfile
import uuid

result = {
    "random": random.random(),
    "a new generator": random.Random().random(),
    "choice": random.sample(range(1 << 30), 4),
    "os.urandom": os.urandom(16).hex(),
    "uuid4": str(uuid.uuid4()),
    "uuid1": str(uuid.uuid1()),
    "secrets": secrets.token_hex(16),
    "ssl": ssl.RAND_bytes(16).hex(),
    "tempfile": os.path.basename(tempfile.mkdtemp()),
    "getrandom": os.getrandom(16).hex(),
}
try:
    import numpy

    result["numpy"] = float(numpy.random.rand())
    result["numpy generator"] = float(numpy.random.default_rng().random())
except ImportError:
    pass
