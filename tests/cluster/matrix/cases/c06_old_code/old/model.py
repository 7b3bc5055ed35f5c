from torch import nn


def make():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))


def scale(step):
    return 1.0
