"""Run diffusers: networks and four steps of a scheduler."""

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel, UNet2DModel
from figures import array, check, fill, show

BLOCKS = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 4}
plain = UNet2DModel(sample_size=16, down_block_types=("DownBlock2D", "AttnDownBlock2D"), attention_head_dim=8,
                    up_block_types=("AttnUpBlock2D", "UpBlock2D"), **BLOCKS)  # fmt: skip
check("unconditional", plain, array(1, 3, 16, 16), 5)
conditional = UNet2DConditionModel(
    sample_size=16, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), cross_attention_dim=16, attention_head_dim=4,
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), **BLOCKS,
)  # fmt: skip
check("conditional", conditional, array(1, 4, 16, 16), 5, array(1, 7, 16, seed=2))
KINDS = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
check("autoencoder", AutoencoderKL(latent_channels=4, **KINDS, **BLOCKS), array(1, 3, 16, 16))
scheduler, sample = DDIMScheduler(num_train_timesteps=100), array(1, 3, 16, 16)
scheduler.set_timesteps(4)
fill(plain).eval()
with torch.no_grad():
    for step in scheduler.timesteps:
        sample = scheduler.step(plain(sample, step).sample, step, sample).prev_sample
show("four steps", sample)
