from conf import SCALE, WIDTH


def scaled(k):
    return SCALE[k] * WIDTH


def run(ks):
    out = []
    for k in ks:
        out.append(scaled(k))
    return out
