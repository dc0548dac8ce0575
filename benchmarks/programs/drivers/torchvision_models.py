"""Run torchvision: models, transforms, losses."""

import numpy as np
import torch
import torchvision
from figures import array, check, show
from torchvision import models, ops, transforms
from torchvision.transforms import v2

NAMES = """
    alexnet vgg11 resnet18 squeezenet1_1 densenet121 inception_v3 googlenet shufflenet_v2_x0_5 mobilenet_v2 mobilenet_v3_small
    resnext50_32x4d wide_resnet50_2 mnasnet0_5 efficientnet_b0 regnet_y_400mf vit_b_16 convnext_tiny swin_t
    """.split()

for name in NAMES:
    more = {"init_weights": False} if name in ("inception_v3", "googlenet") else {}
    size = {"inception_v3": 96, "vit_b_16": 224}.get(name, 64)
    check(name, getattr(models, name)(num_classes=10, **more), array(1, 3, size, size))
for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large"):
    check(name, getattr(models.segmentation, name)(weights=None, weights_backbone=None, num_classes=5), array(1, 3, 64, 64))
check("r3d_18", models.video.r3d_18(num_classes=4), array(1, 3, 4, 32, 32))

picture = torch.from_numpy(np.random.RandomState(0).randint(0, 255, (3, 40, 50), dtype=np.uint8))
for kind, label in ((transforms, "v1"), (v2, "v2")):
    for name, change in {
        "resize": kind.Resize((20, 30), antialias=True), "crop": kind.CenterCrop(24), "grey": kind.Grayscale(3),
        "pad": kind.Pad(3, padding_mode="reflect"), "blur": kind.GaussianBlur(5, (1.0, 1.0)),
    }.items():  # fmt: skip
        show(f"{label} {name}", change(picture).float())
    show(f"{label} normalize", kind.Normalize([0.5] * 3, [0.2] * 3)(picture.float() / 255))
functional = torchvision.transforms.functional
show("rotate", functional.rotate(picture, 30.0).float())
show("hue", functional.adjust_hue(picture, 0.2).float(), functional.adjust_contrast(picture, 1.5).float())
boxes = torch.tensor([[0.0, 0, 10, 10], [5, 5, 20, 15]])
others = torch.tensor([[1.0, 2, 11, 12], [4, 6, 18, 19]])
show("boxes", ops.box_iou(boxes, others), ops.generalized_box_iou_loss(boxes, others, reduction="sum"))
show("losses", ops.complete_box_iou_loss(boxes, others), ops.sigmoid_focal_loss(array(4), torch.ones(4), reduction="mean"))
