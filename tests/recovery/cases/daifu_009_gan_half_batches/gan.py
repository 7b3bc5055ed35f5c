"""A generator learns a ring of eight spots, a critic tells its points from the true ones."""
import json
import math

import torch
from torch import nn

BATCH, LATENT, STEPS = 32, 4, 60
used = {"real": 0, "fake": 0, "noise_calls": 0, "label_calls": 0, "critic_steps": 0}


def ring(n):
    angle = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)


def sample_noise(n):
    used["noise_calls"] += 1
    return torch.randn(n / 2, LATENT)


def labels(n):
    used["label_calls"] += 1
    smooth = 0.9
    ones = torch.full((n / 2, 1), smooth)
    return torch.cat([ones, torch.zeros(n // 2, 1)])


def train(generator, critic, data):
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
    c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
    half = BATCH / 2
    bce = nn.BCEWithLogitsLoss()
    for step in range(STEPS):
        picked = torch.randint(0, len(data), (half,))
        real = data[picked]
        used["real"] += len(real)
        fake = generator(sample_noise(BATCH))
        used["fake"] += len(fake)
        c_loss = bce(critic(torch.cat([real, fake.detach()])), labels(BATCH))
        c_opt.zero_grad()
        c_loss.backward()
        c_opt.step()
        used["critic_steps"] += 1
        g_loss = bce(critic(generator(sample_noise(BATCH))), torch.ones(half, 1))
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        if step % 20 == 19:
            print(f"step {step + 1}: critic {c_loss.item():.4f} generator {g_loss.item():.4f}")


def picture(generator, columns=6):
    rows = columns / 2
    lines = []
    for row in range(rows):
        points = generator(sample_noise(2 * columns))
        lines.append(" ".join(f"{r:.1f}" for r in points.detach().norm(dim=1).tolist()))
    return lines


torch.manual_seed(9)
generator = nn.Sequential(nn.Linear(LATENT, 24), nn.ReLU(), nn.Linear(24, 2))
critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
train(generator, critic, ring(512))
print("\n".join(picture(generator)))
with torch.no_grad():
    norm = sum(p.norm().item() for p in [*generator.parameters(), *critic.parameters()])
print("COUNTS", json.dumps(used))
print("RESULT", json.dumps({"norm": round(norm, 5)}))
