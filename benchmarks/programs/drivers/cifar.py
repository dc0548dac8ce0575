"""Run kuangliu/pytorch-cifar: 16 networks."""

import models
from figures import array, check

for name in """
    VGG ResNet18 PreActResNet18 GoogLeNet densenet_cifar ResNeXt29_2x64d MobileNet MobileNetV2 DPN26 SENet18
    ShuffleNetV2 EfficientNetB0 RegNetX_200MF SimpleDLA LeNet PNASNetA
    """.split():
    kind = getattr(models, name)
    check(name, kind("VGG11") if name == "VGG" else kind(1) if name == "ShuffleNetV2" else kind(), array(2, 3, 32, 32))
