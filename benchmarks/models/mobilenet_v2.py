"""MobileNet v2 (Sandler et al. 2018), width 1: inverted residuals around depthwise convolutions."""

from common import classify

NAME, ITEMS, UNIT = "MobileNet v2, batch 32", 32, "images"
# expansion, channels, blocks, stride of the first
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def network(m):
    nn = m.nn

    def normed(inputs, outputs, kernel=1, stride=1, groups=1):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outputs)]

    class InvertedResidual(nn.Module):
        """Widened, filtered channel by channel, narrowed; added to what came in where the shapes allow."""

        def __init__(self, inputs, outputs, stride, expansion):
            super().__init__()
            wide = inputs * expansion
            layers = [] if expansion == 1 else [*normed(inputs, wide), nn.ReLU6(inplace=True)]
            layers += [*normed(wide, wide, 3, stride, wide), nn.ReLU6(inplace=True), *normed(wide, outputs)]
            self.layers = nn.Sequential(*layers)
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.layers(x) if self.adds else self.layers(x)

    blocks, channels = [*normed(3, 32, 3, 2), nn.ReLU6(inplace=True)], 32
    for expansion, width, count, stride in STAGES:
        for i in range(count):
            blocks.append(InvertedResidual(channels, width, stride if i == 0 else 1, expansion))
            channels = width
    head = [*normed(channels, 1280), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*blocks, *head, nn.Dropout(0.2), nn.Linear(1280, 1000))


def training(m, model):
    return classify(m, model, ITEMS)
