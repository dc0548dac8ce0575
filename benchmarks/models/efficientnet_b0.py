"""EfficientNet-B0 (Tan and Le 2019): inverted residuals whose channels are weighted by numbers computed from the whole
image.
"""

from common import classify, inverted_residuals

NAME, ITEMS, UNIT = "EfficientNet-B0, batch 8", 8, "images"
# expansion, channels, blocks, stride of the first, window
STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip


def network(m):
    nn = m.nn

    class SqueezeExcitation(nn.Module):
        def __init__(self, channels, squeezed):
            super().__init__()
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(inplace=True),
                nn.Conv2d(squeezed, channels, 1), nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, x):
            return x * self.gate(x)

    return inverted_residuals(m, STAGES, nn.SiLU, lambda wide, inputs: [SqueezeExcitation(wide, inputs // 4)])


def training(m, model):
    return classify(m, model, ITEMS)
