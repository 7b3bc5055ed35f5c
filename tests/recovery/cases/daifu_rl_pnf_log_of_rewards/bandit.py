"""A softmax policy on a bandit with six arms."""
import json
from pathlib import Path

import torch


class Recorder:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.rewards, self.writes = [], 0

    def add(self, reward):
        self.rewards.append(reward)

    def write(self, policy):
        self.writes += 1
        table = self.folder / "rewards.csv"
        table.write_text("".join(f"{i},{r:.3f}\n" for i, r in enumerate(self.rewards)))
        torch.save(policy, self.folder / "policy.pt")


torch.manual_seed(9)
arms = torch.tensor([0.1, 0.4, 0.2, 0.9, 0.3, 0.6])
policy = torch.zeros(6, requires_grad=True)
opt = torch.optim.SGD([policy], lr=0.3)
recorder = Recorder("results/bandit")
for episode in range(120):
    chances = policy.log_softmax(0)
    arm = torch.multinomial(chances.exp().detach(), 1).item()
    reward = (arms[arm] + 0.1 * torch.randn(())).item()
    opt.zero_grad()
    (-reward * chances[arm]).backward()
    opt.step()
    recorder.add(reward)
print(f"best arm {policy.argmax().item()}, mean reward {sum(recorder.rewards) / 120:.4f}")
recorder.write(policy.detach())
print("COUNTS", json.dumps({"writes": recorder.writes, "episodes": len(recorder.rewards)}))
print("RESULT", json.dumps({"policy": [round(v, 5) for v in policy.tolist()]}))
