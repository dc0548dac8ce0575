"""MobileNet v2 (Sandler et al. 2018), width 1: inverted residuals around depthwise convolutions."""

from common import classify, inverted_residuals

NAME, ITEMS, UNIT = "MobileNet v2, batch 32", 32, "images"
# expansion, channels, blocks, stride of the first, window
STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3), (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)  # fmt: skip


def network(m):
    return inverted_residuals(m, STAGES, m.nn.ReLU6)


def training(m, model):
    return classify(m, model, ITEMS)
