"""Run lightning: `Trainer.fit` with validation, clipping and checkpoints."""

import warnings

import lightning
import torch
from figures import array, fill, integers, show

warnings.simplefilter("ignore")


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = fill(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)))
        self.seen = []

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        self.seen.append(float(loss))
        return loss

    def validation_step(self, batch, index):
        self.log("validation", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


rows = torch.utils.data.TensorDataset(array(64, 8), integers(3, 64))
keeper = lightning.pytorch.callbacks.ModelCheckpoint(dirpath="kept", monitor="validation")
trainer = lightning.Trainer(max_epochs=3, gradient_clip_val=1.0, callbacks=[keeper], logger=False, enable_progress_bar=False,
                            enable_model_summary=False, accelerator="cpu")  # fmt: skip
model = Net()
loader = torch.utils.data.DataLoader(rows, batch_size=16)
trainer.fit(model, loader, loader)
show("losses", *model.seen[::3])
show("validation", trainer.callback_metrics["validation"])
show("weights", Net.load_from_checkpoint(keeper.best_model_path).net[0].weight)
