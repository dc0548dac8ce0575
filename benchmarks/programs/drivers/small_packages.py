"""Run a model or the main functions of open_clip, pytorch-metric-learning, ema-pytorch, torchinfo, torchsummary and thop."""

import open_clip
import torch
from ema_pytorch import EMA
from figures import array, check, fill, integers, show
from pytorch_metric_learning import losses, miners
from thop import profile
from torchinfo import summary

clip = open_clip.CLIP(
    32, open_clip.CLIPVisionCfg(layers=2, width=32, head_width=8, image_size=32, patch_size=8),
    open_clip.CLIPTextCfg(context_length=12, vocab_size=60, width=32, heads=4, layers=2),
)  # fmt: skip
check("open_clip", clip, array(2, 3, 32, 32), integers(59, 2, 12) + 1)
points, labels = array(12, 8), integers(3, 12)
for name in "TripletMarginLoss ContrastiveLoss NTXentLoss CircleLoss MultiSimilarityLoss".split():
    show(name, getattr(losses, name)()(points, labels))
show("miner", *[t.float() for t in miners.MultiSimilarityMiner()(points, labels)])
net = fill(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 2)))
average = EMA(net, beta=0.9, update_after_step=0, update_every=1)
for _ in range(3):
    with torch.no_grad():
        net[0].weight.mul_(0.9)
    average.update()
show("ema", average.ema_model[0].weight)
report = summary(net, input_size=(1, 3, 8, 8), verbose=0)
show("torchinfo", report.total_params, report.total_mult_adds)
show("thop", *profile(net, inputs=(array(1, 3, 8, 8),), verbose=False))
from torchsummary import summary as old_summary  # noqa: E402 - it writes a table

old_summary(net, (3, 8, 8), device="cpu")
