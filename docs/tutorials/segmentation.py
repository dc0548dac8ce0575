# %% [markdown]
# # Segmentation with a small U-Net
#
# Every pixel of a noisy image gets a class: background, disc, square or triangle.
#
# A classifier gives one answer for an image; segmentation gives one for each pixel. To say what a pixel belongs to, the
# network has to see a wide surrounding, and still draw exact edges. A U-Net does both: it goes down to a coarse image
# with a wide view, and comes up again with the fine images of the way down beside it (Ronneberger and others, 2015).

# %%
from matplotlib import pyplot as plt

import facula as torch
from facula import nn
from facula.nn import functional as F

torch.manual_seed(0)
SIZE = 32
NAMES = ("background", "disc", "square", "triangle")


def draw(count):
    """Return images, (count, 1, SIZE, SIZE), and the class of each pixel: three shapes in each image, later ones on top."""
    row, column = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    labels = torch.zeros(count, SIZE, SIZE, dtype=torch.long)
    images = torch.zeros(count, SIZE, SIZE)
    for kind in (1, 2, 3):
        y, x = torch.rand(2, count, 1, 1) * (SIZE - 12) + 6
        radius = 3 + 3.5 * torch.rand(count, 1, 1)
        down, right = row - y, column - x
        inside = (
            down**2 + right**2 < radius**2,
            (down.abs() < 0.85 * radius) & (right.abs() < 0.85 * radius),
            (down < 0.8 * radius) & (2 * right.abs() - down < 0.9 * radius),
        )[kind - 1]
        labels[inside] = kind
        images = torch.where(inside, 0.4 + 0.6 * torch.rand(count, 1, 1), images)
    return (images + 0.25 * torch.randn(count, SIZE, SIZE)).unsqueeze(1), labels


images, labels = draw(4)
images.shape, labels.shape

# %% [markdown]
# ## The network
#
# Shapes differ only in their outline, and brightness says nothing about the class, so the network has to look at whole
# shapes. `down` halves the image, `up` doubles it; `torch.cat` puts the fine image of the same size beside the coarse one.


# %%
def block(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, widths=(12, 24, 48), classes=4):
        super().__init__()
        self.down = nn.ModuleList(block(a, b) for a, b in zip((1, *widths), widths))
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        fine = []
        for level, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if level else x)
            fine.append(x)
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat([self.enlarge[level](x), fine[level]], 1))
        return self.head(x)


model = UNet()
sum(p.numel() for p in model.parameters())

# %% [markdown]
# ## Training
#
# Each batch is drawn anew, so there is nothing to learn by heart. Most pixels are background: `weight` lets the rarer
# classes count more. The measure is the intersection over the union: of all pixels that are a class or are taken for it,
# the share that is both.

# %%
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=240)
weight = torch.tensor([0.4, 1.0, 1.0, 1.0])
for step in range(1, 241):
    images, labels = draw(24)
    loss = F.cross_entropy(model(images), labels, weight=weight)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 60 == 0:
        print(f"step {step}  loss {loss.item():.3f}")

# %%
model.eval()
images, labels = draw(200)
with torch.no_grad():
    found = model(images).argmax(1)
for kind, name in enumerate(NAMES):
    both, either = (found == kind) & (labels == kind), (found == kind) | (labels == kind)
    print(f"{name:10}  intersection over union {100 * both.sum() / either.sum():.0f} %")

# %%
figure, axes = plt.subplots(3, 6, figsize=(8, 4.2))
for column in range(6):
    axes[0, column].imshow(images[column, 0], cmap="gray")
    for line, classes in enumerate((labels, found), 1):
        axes[line, column].imshow(classes[column], cmap="Set2", vmin=0, vmax=7, interpolation="nearest")
for cell, title in zip(axes[:, 0], ("image", "truth", "found")):
    cell.set_ylabel(title)
for cell in axes.flat:
    cell.set(xticks=[], yticks=[])
figure.tight_layout()
