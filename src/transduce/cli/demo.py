"""placeholder"""
SUMMARY = "x"
def configure(parser): ...
def run(args): return 1
