# expect: call
import os

getattr(os, "sXstem".replace("X", "y"))("id")
