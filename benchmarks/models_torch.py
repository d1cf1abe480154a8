"""The nine workloads in PyTorch, layer for layer as in ``models.py``."""

from __future__ import annotations

import torch
from models import WORKLOADS
from torch import nn
from torch.nn import functional as F


def conv_bn(i, o, size, stride=1):
    return nn.Sequential(
        nn.Conv2d(i, o, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(o)
    )


class Basic(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.b = conv_bn(i, o, 3, stride), conv_bn(o, o, 3)
        self.short = conv_bn(i, o, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))) + self.short(x))


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride, first):
        super().__init__()
        self.a, self.b = conv_bn(i, width, 1), conv_bn(width, width, 3, stride)
        self.c = conv_bn(width, 4 * width, 1)
        self.short = conv_bn(i, 4 * width, 1, stride) if first else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.short(x))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            z.view(b, t, self.heads, d // self.heads).transpose(1, 2)
            for z in self.qkv(self.n1(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, depth, width, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        x = self.tokens(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LSTM(nn.Module):
    def __init__(self, vocabulary, classes):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, 128)
        self.lstm = nn.LSTM(128, 128, batch_first=True)
        self.head = nn.Linear(128, classes)

    def forward(self, x):
        return self.head(self.lstm(self.tokens(x))[0][:, -1])


def build(name: str) -> nn.Module:
    w = WORKLOADS[name]
    if name == "tiny":
        return nn.Sequential(
            nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
        )
    if name == "mlp":
        return nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
    if name == "convnet":
        return nn.Sequential(
            nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.5), nn.Linear(1600, 10),
        )  # fmt: skip
    if name == "resnet20":
        blocks, i = [conv_bn(3, 16, 3), nn.ReLU()], 16
        for stage, o in enumerate((16, 32, 64)):
            for block in range(3):
                blocks.append(Basic(i, o, 2 if stage and not block else 1))
                i = o
        return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    if name == "resnet50":
        blocks, i = [conv_bn(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for stage, (width, n) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for block in range(n):
                blocks.append(Bottleneck(i, width, 2 if stage and not block else 1, not block))
                i = 4 * width
        return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    if name == "vgg16":
        blocks, i = [], 3
        for o, n in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(n):
                blocks += [nn.Conv2d(i, o, 3, padding=1), nn.ReLU()]
                i = o
            blocks.append(nn.MaxPool2d(2))
        return nn.Sequential(
            *blocks, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4096, 1000),
        )  # fmt: skip
    if name == "gpt":
        return GPT(w.vocabulary, w.input_shape[0], 4, 256, 4)
    if name == "gpt_124m":
        return GPT(w.vocabulary, w.input_shape[0], 12, 768, 12)
    return LSTM(w.vocabulary, w.classes)
