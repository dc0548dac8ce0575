"""Run kornia: filters, colors, geometry, features, augmentation."""

import kornia
import torch
from figures import array, show

x = array(1, 3, 24, 24).sigmoid()
grey = x[:, :1]
K = kornia
FUNCTIONS = {
    "gaussian": lambda: K.filters.gaussian_blur2d(x, (5, 5), (1.0, 1.0)), "median": lambda: K.filters.median_blur(x, (3, 3)),
    "box": lambda: K.filters.box_blur(x, (3, 3)), "sobel": lambda: K.filters.sobel(x),
    "laplacian": lambda: K.filters.laplacian(x, 3),
    "canny": lambda: K.filters.canny(x)[0], "unsharp": lambda: K.filters.unsharp_mask(x, (3, 3), (1.0, 1.0)),
    "hsv": lambda: K.color.rgb_to_hsv(x), "lab": lambda: K.color.rgb_to_lab(x), "yuv": lambda: K.color.rgb_to_yuv(x),
    "grey": lambda: K.color.rgb_to_grayscale(x), "brightness": lambda: K.enhance.adjust_brightness(x, 0.2),
    "equalize": lambda: K.enhance.equalize(x), "rotate": lambda: K.geometry.transform.rotate(x, torch.tensor([30.0])),
    "resize": lambda: K.geometry.transform.resize(x, (12, 18)), "pyramid": lambda: K.geometry.transform.pyrdown(x),
    "homography": lambda: K.geometry.transform.warp_perspective(x, torch.eye(3)[None] + 0.01 * array(1, 3, 3), (24, 24)),
    "harris": lambda: K.feature.harris_response(grey), "dissolved": lambda: K.losses.ssim_loss(x, x.flip(-1), 5),
    "erosion": lambda: K.morphology.erosion(x, torch.ones(3, 3)),
}  # fmt: skip
for name, function in FUNCTIONS.items():
    show(name, function())
y = x.clone().requires_grad_()
K.geometry.transform.rotate(K.filters.gaussian_blur2d(y, (3, 3), (1.0, 1.0)), torch.tensor([10.0])).square().sum().backward()
show("gradient", y.grad)
torch.manual_seed(1)
show("flips", K.augmentation.RandomHorizontalFlip(p=1.0)(x), K.augmentation.RandomGrayscale(p=1.0)(x))
show("draws", K.augmentation.RandomAffine(20.0, p=1.0)(x))
