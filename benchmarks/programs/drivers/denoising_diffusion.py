"""Run lucidrains/denoising-diffusion-pytorch: loss, gradient, sampling."""

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet
from figures import array, check, show

diffusion = GaussianDiffusion(Unet(dim=8, dim_mults=(1, 2), flash_attn=False), image_size=16, timesteps=8, sampling_timesteps=4)
torch.manual_seed(5)
check("loss", diffusion, array(2, 3, 16, 16).sigmoid())
torch.manual_seed(6)
with torch.no_grad():
    show("sample", diffusion.eval().sample(batch_size=1))
