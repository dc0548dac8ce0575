"""Run lucidrains/vit-pytorch: models, and distillation."""

import importlib

import torch
from figures import array, check

COMMON = {"num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 48}
IMAGE = {"image_size": 32, "patch_size": 8}
MODELS = {
    "vit.ViT": {**IMAGE, **COMMON}, "simple_vit.SimpleViT": {**IMAGE, **COMMON},
    "simple_vit_with_register_tokens.SimpleViT": {**IMAGE, **COMMON}, "deepvit.DeepViT": {**IMAGE, **COMMON},
    "cait.CaiT": {**IMAGE, **COMMON, "cls_depth": 1},
    "cct.CCT": {"img_size": (32, 32), "embedding_dim": 32, "n_conv_layers": 1, "kernel_size": 7, "stride": 2, "padding": 3,
                "pooling_kernel_size": 3, "pooling_stride": 2, "pooling_padding": 1, "num_layers": 2, "num_heads": 4,
                "mlp_ratio": 2.0, "num_classes": 10, "positional_embedding": "learnable", "stochastic_depth_rate": 0.0},
    "t2t.T2TViT": {**COMMON, "image_size": 32, "t2t_layers": ((3, 2), (3, 2))},
    "pit.PiT": {**IMAGE, **COMMON, "depth": (1, 1, 1)},
    "levit.LeViT": {"image_size": 64, "num_classes": 10, "stages": 2, "dim": (32, 48), "depth": 1, "heads": (2, 2),
                    "mlp_mult": 2},
    "cross_vit.CrossViT": {"image_size": 32, "num_classes": 10, "depth": 1, "sm_dim": 32, "sm_patch_size": 8, "lg_dim": 32,
                           "lg_patch_size": 16},
    "rvt.RvT": {**IMAGE, **COMMON}, "vit_for_small_dataset.ViT": {**IMAGE, **COMMON},
    "parallel_vit.ViT": {**IMAGE, **COMMON}, "cvt.CvT": {"num_classes": 10}, "mobile_vit.MobileViT": {"image_size": (64, 64),
                "dims": [24, 32, 48], "channels": [8, 8, 16, 16, 16, 16, 24, 24, 32, 32, 64], "num_classes": 10},
}  # fmt: skip

for name, arguments in MODELS.items():
    module, _, kind = name.partition(".")
    model = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)(**arguments)
    size = arguments.get("image_size", 32)
    size = size if isinstance(size, int) else size[0]
    check(name, model, array(1, 3, size if name != "cvt.CvT" else 64, size if name != "cvt.CvT" else 64))

from vit_pytorch.distill import DistillableViT, DistillWrapper  # noqa: E402

student = DistillableViT(**IMAGE, **COMMON)
teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
check("distillation", DistillWrapper(student=student, teacher=teacher, temperature=3, alpha=0.5), array(2, 3, 32, 32),
      torch.tensor([1, 2]))  # fmt: skip
