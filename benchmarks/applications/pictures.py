"""Process pictures: encode, denoise, and classify them with a network that a loader of two workers feeds."""

from __future__ import annotations

import diffusers
import torch
import transformers
from kinds import Step, application, fill, normal, trained


@application("ViT small encodes 8 pictures of 224")
def vit_encodes() -> Step:
    config = transformers.ViTConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536)
    model = fill(transformers.ViTModel(config)).eval()
    pictures = normal(8, 3, 224, 224)

    def step() -> float:
        with torch.no_grad():
            return model(pictures).last_hidden_state.abs().mean().item()

    return step


@application("diffusion: a U-Net takes noise from 4 pictures of 64")
def unet_denoises() -> Step:
    model = diffusers.UNet2DModel(
        sample_size=64, block_out_channels=(64, 128, 128, 256), layers_per_block=1,
        down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"), norm_num_groups=32,
    )  # fmt: skip
    fill(model).eval()
    scheduler = diffusers.DDIMScheduler()
    scheduler.set_timesteps(10)
    noise = normal(4, 3, 64, 64)

    def step() -> float:
        with torch.no_grad():
            predicted = model(noise, 500).sample
        return scheduler.step(predicted, 501, noise).prev_sample.abs().mean().item()

    return step


class Pictures(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.pictures = normal(64, 3, 112, 112)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        top, left = torch.randint(0, 17, (2,)).tolist()
        picture = self.pictures[i, :, top : top + 96, left : left + 96]
        return picture.flip(-1) if torch.rand(()) < 0.5 else picture, i % 10


@application("ResNet-18 trains on 64 pictures of 96 that two workers load", exact=False)
def resnet18_with_loader() -> Step:
    config = transformers.ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=10
    )
    model = fill(transformers.ResNetForImageClassification(config)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = torch.utils.data.DataLoader(Pictures(), batch_size=16, num_workers=2, shuffle=True)

    def step() -> float:
        for pictures, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(pictures).logits, labels)
            loss.backward()
            optimizer.step()
        return loss.item()

    return step


@application("a convolutional autoencoder trains on 32 pictures of 64")
def autoencoder() -> Step:
    nn = torch.nn
    down = [nn.Conv2d(3, 32, 4, 2, 1), nn.GELU(), nn.Conv2d(32, 64, 4, 2, 1), nn.GELU(), nn.Conv2d(64, 128, 4, 2, 1), nn.GELU()]
    up = [nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.GELU()]
    model = fill(nn.Sequential(*down, *up, nn.ConvTranspose2d(32, 3, 4, 2, 1)))
    pictures, optimizer = normal(32, 3, 64, 64), torch.optim.Adam(model.parameters())
    return trained(model, optimizer, lambda: nn.functional.mse_loss(model(pictures), pictures))


@application("MobileNet v2 sorts one picture of 224")
def mobilenet_sorts() -> Step:
    model = fill(transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config())).eval()
    picture = normal(1, 3, 224, 224)

    def step() -> float:
        with torch.no_grad():
            return model(picture).logits.abs().mean().item()

    return step
