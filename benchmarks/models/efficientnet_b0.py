"""EfficientNet-B0 (Tan and Le 2019): inverted residuals whose channels are weighted by what the whole image says of them."""

from common import classify

NAME, ITEMS, UNIT = "EfficientNet-B0, batch 8", 8, "images"
# expansion, channels, blocks, stride of the first, window
STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip


def network(m):
    nn = m.nn

    def normed(inputs, outputs, kernel=1, stride=1, groups=1):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outputs)]

    class SqueezeExcitation(nn.Module):
        def __init__(self, channels, squeezed):
            super().__init__()
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(inplace=True),
                nn.Conv2d(squeezed, channels, 1), nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, x):
            return x * self.gate(x)

    class MBConv(nn.Module):
        def __init__(self, inputs, outputs, stride, expansion, kernel):
            super().__init__()
            wide = inputs * expansion
            layers = [] if expansion == 1 else [*normed(inputs, wide), nn.SiLU(inplace=True)]
            layers += [*normed(wide, wide, kernel, stride, wide), nn.SiLU(inplace=True), SqueezeExcitation(wide, inputs // 4)]
            self.layers = nn.Sequential(*layers, *normed(wide, outputs))
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.layers(x) if self.adds else self.layers(x)

    blocks, channels = [*normed(3, 32, 3, 2), nn.SiLU(inplace=True)], 32
    for expansion, width, count, stride, kernel in STAGES:
        for i in range(count):
            blocks.append(MBConv(channels, width, stride if i == 0 else 1, expansion, kernel))
            channels = width
    head = [*normed(channels, 1280), nn.SiLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*blocks, *head, nn.Dropout(0.2), nn.Linear(1280, 1000))


def training(m, model):
    return classify(m, model, ITEMS)
