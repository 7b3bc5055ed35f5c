SCALE = {0: 1.0, 1: 0.5}
WIDTH = 4
