"""Four small models with data of their own making, for the comparison of recoveries.

Each entry of MODELS gives the model, its data set as two tensors, the batch size, and the optimizer
that such a model is usually trained with.
"""

import math
from typing import Any, Callable, Dict, NamedTuple, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SAMPLES = 2048
CHARACTERS = 96


class Task(NamedTuple):
    """What is trained; `inputs` and `targets` have one row a sample."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    batch: int
    optimizer: torch.optim.Optimizer


class Residual(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.first_norm(self.first(x)))
        out = self.second_norm(self.second(out))
        return F.relu(out + self.shortcut(x))


class ResNet18(nn.Module):
    """For images of 32 x 32 pixels: a stem of 3 x 3 without pooling, as is usual for CIFAR."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        inside = 64
        for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            layers += [Residual(inside, outside, stride), Residual(outside, outside, 1)]
            inside = outside
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean((2, 3)))


class Attention(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        parts = self.mix(self.before(x)).view(rows, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.drop(self.out(seen.transpose(1, 2).reshape(rows, length, width)))
        return x + self.drop(self.mlp(self.between(x)))


class ViT(nn.Module):
    """Patches of 4 x 4 of images of 32 x 32 pixels."""

    def __init__(self, width: int = 192, depth: int = 6) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(torch.randn(1, 64, width) / math.sqrt(width))
        self.blocks = nn.Sequential(*(Attention(width, 3, False) for _ in range(depth)))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.blocks(x).mean(1))


class CharGpt(nn.Module):
    """The next character of each of 64."""

    def __init__(self, width: int = 192, depth: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.places = nn.Parameter(torch.zeros(1, 64, width))
        self.blocks = nn.Sequential(*(Attention(width, 6, True) for _ in range(depth)))
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.characters(x) + self.places)).transpose(1, 2)


class Lstm(nn.Module):
    """A language model of two layers."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.characters(x))[0]).transpose(1, 2)


def _images() -> Tuple[Tensor, Tensor]:
    return torch.randn(SAMPLES, 3, 32, 32), torch.randint(0, 10, (SAMPLES,))


def _text() -> Tuple[Tensor, Tensor]:
    text = torch.randint(0, CHARACTERS, (SAMPLES, 65))
    return text[:, :-1], text[:, 1:]


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-4)


def _task(make: Any, data: Any, batch: int, optimizer: Any) -> Callable[[], Task]:
    def build() -> Task:
        model = make()
        return Task(model, *data(), batch, optimizer(model))

    return build


MODELS: Dict[str, Callable[[], Task]] = {
    "resnet18": _task(ResNet18, _images, 4, _sgd),
    "vit": _task(ViT, _images, 8, _adamw),
    "chargpt": _task(CharGpt, _text, 8, _adamw),
    "lstm": _task(Lstm, _text, 8, _adamw),
}
