import argparse

parser = argparse.ArgumentParser(prog="report")
parser.add_argument("--exec", dest="execute", default="daily")
parser.add_argument("--system", action="store_true")
print(parser.parse_args(["--exec", "weekly"]).execute)
