"""ConvNeXt (Liu et al. 2022), depths and widths of the smallest in timm (atto): layer norms and linear layers over channels."""

from common import classify

NAME, ITEMS, UNIT = "ConvNeXt atto, batch 8", 8, "images"
DEPTHS, WIDTHS = (2, 2, 6, 2), (40, 80, 160, 320)


def network(m):
    nn, F = m.nn, m.nn.functional

    class Norm(nn.LayerNorm):
        """Normalize over the channels of (N, C, H, W)."""

        def forward(self, x):
            x = x.permute(0, 2, 3, 1)
            return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.scale = nn.Parameter(m.full((width,), 1e-6))

        def forward(self, x):
            y = self.norm(self.conv(x).permute(0, 2, 3, 1))
            return x + (self.layers(y) * self.scale).permute(0, 3, 1, 2)

    stages = [nn.Conv2d(3, WIDTHS[0], 4, stride=4), Norm(WIDTHS[0], eps=1e-6)]
    for i, (depth, width) in enumerate(zip(DEPTHS, WIDTHS)):
        if i:
            stages += [Norm(WIDTHS[i - 1], eps=1e-6), nn.Conv2d(WIDTHS[i - 1], width, 2, stride=2)]
        stages += [Block(width) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), Norm(WIDTHS[-1], eps=1e-6), nn.Flatten(), nn.Linear(WIDTHS[-1], 1000)]
    return nn.Sequential(*stages, *head)


def training(m, model):
    return classify(m, model, ITEMS)
