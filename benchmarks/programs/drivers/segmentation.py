"""Run segmentation_models_pytorch: three decoders, and losses."""

import segmentation_models_pytorch as smp
import torch
from figures import array, check, integers, show

for kind in (smp.Unet, smp.FPN, smp.Linknet):
    check(kind.__name__, kind("resnet18", encoder_weights=None, classes=2), array(1, 3, 64, 64))
x, y = array(2, 1, 8, 8), integers(2, 2, 1, 8, 8).float()
show("losses", smp.losses.DiceLoss("binary")(x, y), smp.losses.FocalLoss("binary")(x, y))
show("overlap", smp.losses.JaccardLoss("binary")(x, y))
counts = smp.metrics.get_stats(x.sigmoid(), y.long(), mode="binary", threshold=0.5)
show("metrics", smp.metrics.iou_score(*counts, reduction="micro"), torch.stack(counts).float())
