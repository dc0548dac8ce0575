"""Run stable-baselines3: PPO, A2C and DQN on CartPole."""

import torch
from figures import show
from stable_baselines3 import A2C, DQN, PPO

torch.set_num_threads(1)
for kind, more in ((PPO, {"n_steps": 128}), (A2C, {}), (DQN, {"learning_starts": 64, "train_freq": 8})):
    model = kind("MlpPolicy", "CartPole-v1", seed=0, device="cpu", **more)
    model.learn(256)
    show(kind.__name__, *[p.detach() for p in list(model.policy.parameters())[:3]])
