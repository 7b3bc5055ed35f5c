"""Gated graph network: which nodes of a random graph can be reached from node 0 in two steps."""
import json

import torch
from torch import nn

NODES, HIDDEN = 8, 12


class Gated(nn.Module):
    def __init__(self, rounds=2):
        super().__init__()
        self.rounds = rounds
        self.message = nn.Linear(HIDDEN, HIDDEN)
        self.cell = nn.GRUCell(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)

    def forward(self, state, edges):
        n = state.shape[0]
        for _ in range(self.rounds):
            sent = edges @ self.message(state)
            state = self.cell(sent.flatten(0, 1), state.flatten(0, 1)).view(n, NODES, HIDDEN)
        return self.out(state).squeeze(-1)
