"""Run karpathy/minGPT: its model and trainer, 20 steps on one batch that repeats."""

import torch
from figures import fill, integers, show
from mingpt.model import GPT
from mingpt.trainer import Trainer

config = GPT.get_default_config()
config.model_type, config.vocab_size, config.block_size = "gpt-nano", 20, 16
config.embd_pdrop = config.resid_pdrop = config.attn_pdrop = 0.0
model = fill(GPT(config))
rows = integers(20, 40, 17)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(rows)

    def __getitem__(self, index):
        return rows[index % 4, :-1], rows[index % 4, 1:]


settings = Trainer.get_default_config()
settings.batch_size, settings.max_iters, settings.num_workers, settings.device = 8, 20, 0, "cpu"
torch.manual_seed(3)
trainer = Trainer(settings, model, Rows())
trainer.set_callback("on_batch_end", lambda t: show(f"step {t.iter_num}", t.loss.item()) if t.iter_num % 5 == 0 else None)
trainer.run()
show("generated", model.generate(rows[:1, :4], 8, do_sample=False).float())
