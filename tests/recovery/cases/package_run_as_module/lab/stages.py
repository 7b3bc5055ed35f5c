from math import log


def warm():
    return log(2.0)


def main():
    return log(0.0)


def cool():
    return log(0.5)


def stages():
    for function in (warm, main, cool):
        yield function.__name__, function
