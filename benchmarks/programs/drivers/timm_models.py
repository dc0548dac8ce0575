"""Run timm: 17 architectures, small ones of their families."""

import timm
from figures import array, check

NAMES = """
    resnet18 vit_tiny_patch16_224 mobilenetv2_050 mobilenetv3_small_050 convnext_atto swin_tiny_patch4_window7_224
    efficientnet_b0 regnetx_002 densenet121 deit_tiny_patch16_224 mixer_s32_224 resnext50_32x4d ghostnet_050 mnasnet_small
    levit_128s pit_ti_224 xcit_nano_12_p16_224
    """.split()

for name in NAMES:
    size = 224 if any(part in name for part in ("224", "levit", "pit")) else 64
    check(name, timm.create_model(name, num_classes=10), array(1, 3, size, size))
