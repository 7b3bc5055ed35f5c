"""A policy walks on a line of eleven cells; late in the training its visits go into a table."""
import json
import random

import numpy as np
import torch
from torch import nn


class Agent:
    def __init__(self, seed, table_bytes):
        torch.manual_seed(seed)
        self.random = random.Random(seed)
        self.policy = nn.Sequential(nn.Linear(11, 16), nn.Tanh(), nn.Linear(16, 2))
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=0.02)
        self.table_bytes, self.table = table_bytes, None
        self.moves = self.tables = 0

    def remember(self, visited):
        if self.table is None:
            self.tables += 1
            columns = self.table_bytes // 8
            self.table = np.zeros((11, columns))
        self.table[visited, : 1] += 1

    def episode(self, late):
        at, logs, visited = 5, [], []
        while 0 < at < 10 and len(logs) < 30:
            self.moves += 1
            here = nn.functional.one_hot(torch.tensor(at), 11).float()
            chances = self.policy(here).log_softmax(0)
            right = self.random.random() < chances[1].exp().item()
            logs.append(chances[int(right)])
            visited.append(at)
            at += 1 if right else -1
        if late:
            self.remember(visited)
        gain = 1.0 if at == 10 else -1.0
        loss = -gain * torch.stack(logs).sum() / 10
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return gain


agent = Agent(seed=3, table_bytes=1 << 52)
gains = []
for number in range(50):
    gains.append(agent.episode(late=number >= 36))
    if number % 10 == 9:
        print(f"episode {number + 1} mean gain {sum(gains[-10:]) / 10:+.2f} moves {agent.moves}")
print("COUNTS", json.dumps({"moves": agent.moves, "tables": agent.tables}))
print("RESULT", json.dumps({"gains": sum(gains), "visits": agent.table.sum()}))
